#include <cmath>
#include <cstdint>

extern "C" int rms_norm(const float* x, const float* weight, float* y, std::int64_t rows,
                        std::int64_t cols, void*) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* in = x + row * cols;
    float even = 0.0f;
    float odd = 0.0f;
    std::int64_t col = 0;
    for (; col + 2 <= cols; col += 2) {
      even += in[col] * in[col];
      odd += in[col + 1] * in[col + 1];
    }
    for (; col < cols; ++col) {
      even += in[col] * in[col];
    }
    const float mean = (even + odd) / cols;
    const float scale = 1.0f / std::sqrt(mean + 1e-6f);
    for (std::int64_t col = 0; col < cols; ++col) {
      y[row * cols + col] = in[col] * scale * weight[col];
    }
  }
  return 0;
}
