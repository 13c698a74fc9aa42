// kernel: rmsnorm_row_a_thread/before/cuda
// flaw: neighbouring lanes read different rows, and there are only 2048 rows
#include <cuda_runtime.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace {

constexpr int kThreads = 128;
constexpr float kEpsilon = 1e-6f;

__global__ void __launch_bounds__(kThreads)
    normalize_rows(const __half* __restrict__ x, const __half* __restrict__ weight,
                   __half* __restrict__ y, int rows, int cols) {
  const int row = blockIdx.x * kThreads + threadIdx.x;
  if (row >= rows) return;
  constexpr int first = 0, step = 1;
  const __half* from = x + static_cast<std::int64_t>(row) * cols;
  __half* to = y + static_cast<std::int64_t>(row) * cols;
  float squares = 0.0f;
  for (int c = first; c < cols; c += step) {
    const float value = __half2float(from[c]);
    squares += value * value;
  }
  const float scale = rsqrtf(squares / cols + kEpsilon);
  for (int c = first; c < cols; c += step) {
    to[c] = __float2half(__half2float(from[c]) * scale * __half2float(weight[c]));
  }
}

}  // namespace

extern "C" int rmsnorm(const __half* x, const __half* weight, __half* y, std::int64_t rows,
                       std::int64_t cols, void* stream) {
  const unsigned blocks = static_cast<unsigned>((rows + kThreads - 1) / kThreads);
  normalize_rows<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      x, weight, y, static_cast<int>(rows), static_cast<int>(cols));
  return static_cast<int>(cudaGetLastError());
}
