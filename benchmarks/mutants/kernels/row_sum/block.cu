#include <cuda_runtime.h>
#include <cstdint>

__global__ void row_sum_kernel(const float* x, float* y, std::int64_t cols) {
  __shared__ float partial[8];
  float sum = 0.0f;
  for (std::int64_t col = threadIdx.x; col < cols; col += 256) {
    sum += x[blockIdx.x * cols + col];
  }
  for (int step = 16; step > 0; step /= 2) {
    sum += __shfl_down_sync(0xffffffffu, sum, step);
  }
  if (threadIdx.x % 32 == 0) {
    partial[threadIdx.x / 32] = sum;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    float total = 0.0f;
    for (int warp = 0; warp < 8; ++warp) {
      total += partial[warp];
    }
    y[blockIdx.x] = total;
  }
}

extern "C" int row_sum(const float* x, float* y, std::int64_t rows, std::int64_t cols, void* stream) {
  row_sum_kernel<<<rows, 256, 0, static_cast<cudaStream_t>(stream)>>>(x, y, cols);
  return cudaGetLastError();
}
