#include <cmath>
#include <cstdint>

extern "C" int arg_max(const float* x, std::int64_t* y, std::int64_t rows, std::int64_t cols,
                       void*) {
  for (std::int64_t row = 0; row < rows; ++row) {
    std::int64_t best = 0;
    float top = x[row * cols];
    for (std::int64_t col = 1; col < cols; ++col) {
      if (std::isnan(top)) break;
      const float value = x[row * cols + col];
      if (value > top || std::isnan(value)) {
        top = value;
        best = col;
      }
    }
    y[row] = best;
  }
  return 0;
}
