#include <cuda_runtime.h>
#include <cstdint>

__global__ void sparse_product_kernel(const std::int64_t* begin, const std::int64_t* column,
                                      const float* value, const float* x, float* y,
                                      std::int64_t rows, std::int64_t count) {
  const std::int64_t row = blockIdx.x * 4 + threadIdx.y;
  if (row >= rows) return;
  const std::int64_t end = row + 1 < rows ? begin[row + 1] : count;
  float sum = 0.0f;
  for (std::int64_t at = begin[row] + threadIdx.x; at < end; at += 32) {
    sum += value[at] * x[column[at]];
  }
  for (int step = 16; step > 0; step /= 2) {
    sum += __shfl_down_sync(0xffffffffu, sum, step);
  }
  if (threadIdx.x == 0) {
    y[row] = sum;
  }
}

extern "C" int sparse_product(const std::int64_t* begin, const std::int64_t* column,
                              const float* value, const float* x, float* y, std::int64_t rows,
                              std::int64_t cols, std::int64_t count, void* stream) {
  (void)cols;
  const unsigned blocks = (rows + 3) / 4;
  sparse_product_kernel<<<blocks, dim3(32, 4), 0, static_cast<cudaStream_t>(stream)>>>(
      begin, column, value, x, y, rows, count);
  return cudaGetLastError();
}
