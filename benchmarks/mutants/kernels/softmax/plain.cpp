#include <cmath>
#include <cstdint>

extern "C" int softmax(const float* x, float* y, std::int64_t rows, std::int64_t cols, void*) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* in = x + row * cols;
    float* out = y + row * cols;
    float top = in[0];
    for (std::int64_t col = 1; col < cols; ++col) {
      if (in[col] > top) top = in[col];
    }
    float sum = 0.0f;
    for (std::int64_t col = 0; col < cols; ++col) {
      const float power = std::exp(in[col] - top);
      out[col] = power;
      sum += power;
    }
    const float scale = 1.0f / sum;
    for (std::int64_t col = 0; col < cols; ++col) {
      out[col] = out[col] * scale;
    }
  }
  return 0;
}
