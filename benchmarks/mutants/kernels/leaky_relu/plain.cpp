#include <cstdint>

extern "C" int leaky_relu(const float* x, float* y, std::int64_t n, void*) {
  constexpr std::int64_t lanes = 16;
  const std::int64_t whole = n / lanes * lanes;
  for (std::int64_t i = 0; i < whole; i += lanes) {
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      const float value = x[i + lane];
      y[i + lane] = value > 0.0f ? value : value * 0.01f;
    }
  }
  for (std::int64_t i = whole; i < n; ++i) {
    y[i] = x[i] > 0.0f ? x[i] : x[i] * 0.01f;
  }
  return 0;
}
