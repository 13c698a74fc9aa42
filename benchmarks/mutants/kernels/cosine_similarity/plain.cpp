#include <algorithm>
#include <cmath>
#include <cstdint>

extern "C" int cosine_similarity(const float* x, const float* z, float* y, std::int64_t rows,
                                 std::int64_t cols, void*) {
  for (std::int64_t row = 0; row < rows; ++row) {
    double dot = 0.0;
    double left = 0.0;
    double right = 0.0;
    for (std::int64_t col = 0; col < cols; ++col) {
      const double a = x[row * cols + col];
      const double b = z[row * cols + col];
      dot += a * b;
      left += a * a;
      right += b * b;
    }
    const double length = std::max(std::sqrt(left), 1e-8) * std::max(std::sqrt(right), 1e-8);
    y[row] = float(dot / length);
  }
  return 0;
}
