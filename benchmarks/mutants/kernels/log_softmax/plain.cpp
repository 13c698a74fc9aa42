#include <cmath>
#include <cstdint>

extern "C" int log_softmax(const float* x, float* y, std::int64_t rows, std::int64_t cols, void*) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t first = row * cols;
    float top = x[first];
    for (std::int64_t col = 1; col < cols; ++col) {
      if (x[first + col] > top) top = x[first + col];
    }
    float sum = 0.0f;
    for (std::int64_t col = 0; col < cols; ++col) {
      sum += std::exp(x[first + col] - top);
    }
    const float shift = std::log(sum);
    for (std::int64_t col = 0; col < cols; ++col) {
      y[first + col] = x[first + col] - top - shift;
    }
  }
  return 0;
}
