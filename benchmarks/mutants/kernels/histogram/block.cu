#include <cuda_runtime.h>
#include <cstdint>

__global__ void clear_kernel(std::int32_t* y) {
  y[threadIdx.x] = 0;
}

__global__ void histogram_kernel(const std::int32_t* x, std::int32_t* y, std::int64_t n) {
  __shared__ std::int32_t counts[16];
  if (threadIdx.x < 16) {
    counts[threadIdx.x] = 0;
  }
  __syncthreads();
  const std::int64_t i = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) {
    atomicAdd(&counts[x[i]], 1);
  }
  __syncthreads();
  if (threadIdx.x < 16) {
    atomicAdd(&y[threadIdx.x], counts[threadIdx.x]);
  }
}

extern "C" int histogram(const std::int32_t* x, std::int32_t* y, std::int64_t n, void* stream) {
  const unsigned blocks = (n + 127) / 128;
  clear_kernel<<<1, 16, 0, static_cast<cudaStream_t>(stream)>>>(y);
  histogram_kernel<<<blocks, 128, 0, static_cast<cudaStream_t>(stream)>>>(x, y, n);
  return cudaGetLastError();
}
