#include <cuda_runtime.h>
#include <cstdint>

__global__ void cumulative_sum_kernel(const float* x, float* y, std::int64_t cols) {
  __shared__ float shared[64];
  float carry = 0.0f;
  for (std::int64_t first = 0; first < cols; first += 64) {
    const std::int64_t col = first + threadIdx.x;
    shared[threadIdx.x] = col < cols ? x[blockIdx.x * cols + col] : 0.0f;
    __syncthreads();
    for (int step = 1; step < 64; step *= 2) {
      const float left = threadIdx.x >= step ? shared[threadIdx.x - step] : 0.0f;
      __syncthreads();
      shared[threadIdx.x] += left;
      __syncthreads();
    }
    if (col < cols) {
      y[blockIdx.x * cols + col] = carry + shared[threadIdx.x];
    }
    carry += shared[63];
    __syncthreads();
  }
}

extern "C" int cumulative_sum(const float* x, float* y, std::int64_t rows, std::int64_t cols,
                              void* stream) {
  cumulative_sum_kernel<<<rows, 64, 0, static_cast<cudaStream_t>(stream)>>>(x, y, cols);
  return cudaGetLastError();
}
