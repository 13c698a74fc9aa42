#include <cstdint>

extern "C" int hard_tanh(const float* x, float* y, std::int64_t n, void*) {
  std::int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (std::int64_t lane = 0; lane < 4; ++lane) {
      float value = x[i + lane];
      if (value < -1.0f) value = -1.0f;
      if (value > 1.0f) value = 1.0f;
      y[i + lane] = value;
    }
  }
  for (; i < n; ++i) {
    y[i] = x[i] < -1.0f ? -1.0f : x[i] > 1.0f ? 1.0f : x[i];
  }
  return 0;
}
