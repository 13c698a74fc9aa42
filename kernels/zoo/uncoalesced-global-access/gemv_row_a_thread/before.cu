// kernel: gemv_row_a_thread/before/cuda
// flaw: neighbouring lanes read different rows, and 64 blocks leave half the SMs idle
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 128;

__global__ void __launch_bounds__(kThreads)
    multiply_rows(const float* __restrict__ a, const float* __restrict__ x,
                  float* __restrict__ y, int rows, int cols) {
  const int row = blockIdx.x * kThreads + threadIdx.x;
  if (row >= rows) return;
  constexpr int first = 0, step = 1;
  const float* own = a + static_cast<std::int64_t>(row) * cols;
  float sum = 0.0f;
  for (int c = first; c < cols; c += step) sum += own[c] * x[c];
  y[row] = sum;
}

}  // namespace

extern "C" int gemv(const float* a, const float* x, float* y,
                    std::int64_t rows, std::int64_t cols, void* stream) {
  const unsigned blocks = static_cast<unsigned>((rows + kThreads - 1) / kThreads);
  multiply_rows<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      a, x, y, static_cast<int>(rows), static_cast<int>(cols));
  return static_cast<int>(cudaGetLastError());
}
