#include <cmath>
#include <cstdint>

extern "C" int gelu(const float* x, float* y, std::int64_t n, void*) {
  constexpr std::int64_t lanes = 8;
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      const float value = x[i + lane];
      y[i + lane] = 0.5f * value * (1.0f + std::erf(value * 0.70710678f));
    }
  }
  for (; i < n; ++i) {
    y[i] = 0.5f * x[i] * (1.0f + std::erf(x[i] * 0.70710678f));
  }
  return 0;
}
