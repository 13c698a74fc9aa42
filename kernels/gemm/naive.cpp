// kernel: gemm/naive/cpu
// shapes: a (m, k) float32 contiguous, b (k, n) float32 contiguous -> c (m, n) float32 contiguous; m >= 0, n >= 0, k >= 0
// launch: one thread, one output after another
// shared: none
// work: algorithm 2 k FLOP per output and 4 B per element of a, b and c; here the same FLOP, but b is walked down its columns: each 4 B read takes a 64 B cache line
// roof: latency of one scalar core (one chain of additions per output) and its cache misses on b, far below the vector units
// tolerance: float32 by the reference's own error in float32, see kernel.yaml
// measured: 13.9 ms at small, session 2026-11-21-gemm
#include <cstdint>

namespace {

float dot(const float* row, const float* column, std::int64_t n, std::int64_t k) {
  float sum = 0.0f;
  for (std::int64_t l = 0; l < k; ++l) {
    sum += row[l] * column[l * n];
  }
  return sum;
}

}  // namespace

extern "C" int gemm(const float* a, const float* b, float* c, std::int64_t m, std::int64_t n,
                    std::int64_t k, void* /*stream*/) {
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      c[i * n + j] = dot(a + i * k, b + j, n, k);
    }
  }
  return 0;
}
