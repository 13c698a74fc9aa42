#include <cuda_runtime.h>
#include <cstdint>

__device__ float larger(float left, float right) {
  return left > right || isnan(left) ? left : right;
}

__global__ void row_max_kernel(const float* x, float* y, std::int64_t cols) {
  float best = x[blockIdx.x * cols];
  for (std::int64_t col = threadIdx.x; col < cols; col += 32) {
    best = larger(best, x[blockIdx.x * cols + col]);
  }
  for (int step = 16; step > 0; step /= 2) {
    best = larger(best, __shfl_down_sync(0xffffffffu, best, step));
  }
  if (threadIdx.x == 0) {
    y[blockIdx.x] = best;
  }
}

extern "C" int row_max(const float* x, float* y, std::int64_t rows, std::int64_t cols, void* stream) {
  row_max_kernel<<<rows, 32, 0, static_cast<cudaStream_t>(stream)>>>(x, y, cols);
  return cudaGetLastError();
}
