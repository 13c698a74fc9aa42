// kernel: row_softmax/naive/cpu
// shapes: x (rows, cols) float32 contiguous -> y (rows, cols) float32 contiguous; rows >= 0, cols >= 0
// launch: one thread, one row after another
// shared: none
// work: algorithm 8 B and 5 FLOP per element; here 12 B of DRAM traffic (x read, y fetched for ownership, y written) while a row fits the L2 cache, 4 FLOP and one libm expf
// roof: latency of one scalar core (expf and the max and sum chains), far below memory bandwidth
// tolerance: float32 atol 1.0e-9 rtol 1.0e-4 matched_ratio 1.0 max_error 1.0e-4
// measured: 66.8 ms at large, session 2026-11-21-zen4
#include <algorithm>
#include <cmath>
#include <cstdint>

namespace {

void softmax_row(const float* x, float* y, std::int64_t cols) {
  float row_max = x[0];
  for (std::int64_t i = 1; i < cols; ++i) {
    row_max = std::max(row_max, x[i]);
  }

  // Subtracting the maximum keeps every exponent <= 0, so nothing overflows.
  float sum = 0.0f;
  for (std::int64_t i = 0; i < cols; ++i) {
    y[i] = std::exp(x[i] - row_max);
    sum += y[i];
  }

  for (std::int64_t i = 0; i < cols; ++i) {
    y[i] /= sum;
  }
}

}  // namespace

extern "C" int row_softmax(const float* x, float* y, std::int64_t rows, std::int64_t cols,
                           void* /*stream*/) {
  if (rows == 0 || cols == 0) return 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    softmax_row(x + row * cols, y + row * cols, cols);
  }
  return 0;
}
