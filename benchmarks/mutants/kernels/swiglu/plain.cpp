#include <cmath>
#include <cstdint>

extern "C" int swiglu(const float* gate, const float* x, float* y, std::int64_t n, void*) {
  std::int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (std::int64_t lane = 0; lane < 4; ++lane) {
      const float g = gate[i + lane];
      y[i + lane] = g / (1.0f + std::exp(-g)) * x[i + lane];
    }
  }
  for (; i < n; ++i) {
    y[i] = gate[i] / (1.0f + std::exp(-gate[i])) * x[i];
  }
  return 0;
}
