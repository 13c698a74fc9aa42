#include <cmath>
#include <cstdint>

extern "C" int row_max(const float* x, float* y, std::int64_t rows, std::int64_t cols, void*) {
  for (std::int64_t row = 0; row < rows; ++row) {
    float best = x[row * cols];
    for (std::int64_t col = 1; col < cols; ++col) {
      const float value = x[row * cols + col];
      if (value > best || std::isnan(value)) best = value;
      if (std::isnan(best)) break;
    }
    y[row] = best;
  }
  return 0;
}
