#include <algorithm>
#include <cmath>
#include <cstdint>

extern "C" int bilinear(const float* x, float* y, std::int64_t height, std::int64_t width,
                        std::int64_t out_height, std::int64_t out_width, void*) {
  const float down = float(height) / out_height;
  const float across = float(width) / out_width;
  for (std::int64_t row = 0; row < out_height; ++row) {
    const float high = std::max((row + 0.5f) * down - 0.5f, 0.0f);
    const std::int64_t top = std::int64_t(high);
    const std::int64_t bottom = std::min(top + 1, height - 1);
    const float low_share = high - top;
    for (std::int64_t col = 0; col < out_width; ++col) {
      const float wide = std::max((col + 0.5f) * across - 0.5f, 0.0f);
      const std::int64_t left = std::int64_t(wide);
      const std::int64_t right = std::min(left + 1, width - 1);
      const float right_share = wide - left;
      const float upper = x[top * width + left] * (1.0f - right_share) + x[top * width + right] * right_share;
      const float lower = x[bottom * width + left] * (1.0f - right_share) + x[bottom * width + right] * right_share;
      y[row * out_width + col] = upper * (1.0f - low_share) + lower * low_share;
    }
  }
  return 0;
}
