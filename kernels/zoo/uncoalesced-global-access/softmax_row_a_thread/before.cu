// kernel: softmax_row_a_thread/before/cuda
// flaw: neighbouring lanes read different rows, and there are few rows
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 128;

__global__ void __launch_bounds__(kThreads)
    normalize_rows(const float* __restrict__ x, float* __restrict__ y, int rows, int cols) {
  const int row = blockIdx.x * kThreads + threadIdx.x;
  if (row >= rows) return;
  constexpr int first = 0, step = 1;
  const float* from = x + static_cast<std::int64_t>(row) * cols;
  float* to = y + static_cast<std::int64_t>(row) * cols;
  float largest = -INFINITY;
  for (int c = first; c < cols; c += step) largest = fmaxf(largest, from[c]);
  float sum = 0.0f;
  for (int c = first; c < cols; c += step) sum += expf(from[c] - largest);
  const float scale = 1.0f / sum;
  for (int c = first; c < cols; c += step) to[c] = expf(from[c] - largest) * scale;
}

}  // namespace

extern "C" int softmax(const float* x, float* y, std::int64_t rows, std::int64_t cols,
                       void* stream) {
  const unsigned blocks = static_cast<unsigned>((rows + kThreads - 1) / kThreads);
  normalize_rows<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      x, y, static_cast<int>(rows), static_cast<int>(cols));
  return static_cast<int>(cudaGetLastError());
}
