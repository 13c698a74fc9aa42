#include <cuda_runtime.h>
#include <cstdint>

__device__ float gelu_of(float value) {
  return 0.5f * value * (1.0f + erff(value * 0.70710678f));
}

__global__ void gelu_kernel(const float* x, float* y, std::int64_t n) {
  const std::int64_t first = (std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x) * 4;
  if (first + 4 <= n) {
    for (int lane = 0; lane < 4; ++lane) {
      y[first + lane] = gelu_of(x[first + lane]);
    }
  } else {
    for (std::int64_t i = first; i < n; ++i) {
      y[i] = gelu_of(x[i]);
    }
  }
}

extern "C" int gelu(const float* x, float* y, std::int64_t n, void* stream) {
  const unsigned blocks = (n + 511) / 512;
  gelu_kernel<<<blocks, 128, 0, static_cast<cudaStream_t>(stream)>>>(x, y, n);
  return cudaGetLastError();
}
