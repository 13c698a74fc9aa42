#include <cstdint>

extern "C" int histogram(const std::int32_t* x, std::int32_t* y, std::int64_t n, void*) {
  constexpr std::int64_t bins = 16;
  std::int32_t even[bins] = {};
  std::int32_t odd[bins] = {};
  std::int64_t i = 0;
  for (; i + 2 <= n; i += 2) {
    even[x[i]] += 1;
    odd[x[i + 1]] += 1;
  }
  for (; i < n; ++i) {
    even[x[i]] += 1;
  }
  for (std::int64_t bin = 0; bin < bins; ++bin) {
    y[bin] = even[bin] + odd[bin];
  }
  return 0;
}
