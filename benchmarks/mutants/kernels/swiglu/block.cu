#include <cuda_runtime.h>
#include <cstdint>

__global__ void swiglu_kernel(const float* gate, const float* x, float* y, std::int64_t n) {
  const std::int64_t stride = std::int64_t(gridDim.x) * blockDim.x;
  for (std::int64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    y[i] = gate[i] / (1.0f + expf(-gate[i])) * x[i];
  }
}

extern "C" int swiglu(const float* gate, const float* x, float* y, std::int64_t n, void* stream) {
  swiglu_kernel<<<4, 64, 0, static_cast<cudaStream_t>(stream)>>>(gate, x, y, n);
  return cudaGetLastError();
}
