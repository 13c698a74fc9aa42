// kernel: gemv_row_a_thread/after/cuda
// change: a warp works on one row instead of 32 rows
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 128;

__global__ void __launch_bounds__(kThreads)
    multiply_rows(const float* __restrict__ a, const float* __restrict__ x,
                  float* __restrict__ y, int rows, int cols) {
  const int row = (blockIdx.x * kThreads + threadIdx.x) / 32;
  if (row >= rows) return;
  const int first = threadIdx.x % 32;
  constexpr int step = 32;
  const float* own = a + static_cast<std::int64_t>(row) * cols;
  float sum = 0.0f;
  for (int c = first; c < cols; c += step) sum += own[c] * x[c];
  for (int s = 16; s > 0; s /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, s);
  if (first == 0) y[row] = sum;
}

}  // namespace

extern "C" int gemv(const float* a, const float* x, float* y,
                    std::int64_t rows, std::int64_t cols, void* stream) {
  const unsigned blocks = static_cast<unsigned>((rows * 32 + kThreads - 1) / kThreads);
  multiply_rows<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      a, x, y, static_cast<int>(rows), static_cast<int>(cols));
  return static_cast<int>(cudaGetLastError());
}
