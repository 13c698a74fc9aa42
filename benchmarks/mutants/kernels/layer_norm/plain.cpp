#include <cmath>
#include <cstdint>

extern "C" int layer_norm(const float* x, const float* weight, const float* bias, float* y,
                          std::int64_t rows, std::int64_t cols, void*) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* in = x + row * cols;
    double sum = 0.0;
    for (std::int64_t col = 0; col < cols; ++col) {
      sum += in[col];
    }
    const double mean = sum / cols;
    double squares = 0.0;
    for (std::int64_t col = 0; col < cols; ++col) {
      const double off = in[col] - mean;
      squares += off * off;
    }
    const double scale = 1.0 / std::sqrt(squares / cols + 1e-5);
    for (std::int64_t col = 0; col < cols; ++col) {
      y[row * cols + col] = float((in[col] - mean) * scale * weight[col] + bias[col]);
    }
  }
  return 0;
}
