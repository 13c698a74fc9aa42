#include <algorithm>
#include <cmath>
#include <cstdint>

extern "C" int l2_norm(const float* x, float* y, std::int64_t rows, std::int64_t cols, void*) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* in = x + row * cols;
    double squares = 0.0;
    for (std::int64_t col = 0; col < cols; ++col) {
      squares += double(in[col]) * in[col];
    }
    const double length = std::max(std::sqrt(squares), 1e-12);
    for (std::int64_t col = 0; col < cols; ++col) {
      y[row * cols + col] = float(in[col] / length);
    }
  }
  return 0;
}
