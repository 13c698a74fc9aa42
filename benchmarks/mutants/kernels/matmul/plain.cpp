#include <algorithm>
#include <cstdint>

extern "C" int matmul(const float* a, const float* b, float* c, std::int64_t m, std::int64_t n,
                      std::int64_t k, void*) {
  constexpr std::int64_t tile = 8;
  for (std::int64_t top = 0; top < m; top += tile) {
    for (std::int64_t left = 0; left < n; left += tile) {
      float sum[tile][tile] = {};
      for (std::int64_t at = 0; at < k; ++at) {
        for (std::int64_t i = top; i < std::min(top + tile, m); ++i) {
          for (std::int64_t j = left; j < std::min(left + tile, n); ++j) {
            sum[i - top][j - left] += a[i * k + at] * b[at * n + j];
          }
        }
      }
      for (std::int64_t i = top; i < std::min(top + tile, m); ++i) {
        for (std::int64_t j = left; j < std::min(left + tile, n); ++j) {
          c[i * n + j] = sum[i - top][j - left];
        }
      }
    }
  }
  return 0;
}
