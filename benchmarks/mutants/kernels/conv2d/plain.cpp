#include <cstdint>

extern "C" int conv2d(const float* x, const float* weight, float* y, std::int64_t channels,
                      std::int64_t height, std::int64_t width, std::int64_t filters, void*) {
  for (std::int64_t filter = 0; filter < filters; ++filter) {
    for (std::int64_t row = 0; row < height; ++row) {
      for (std::int64_t col = 0; col < width; ++col) {
        float sum = 0.0f;
        for (std::int64_t channel = 0; channel < channels; ++channel) {
          const float* plane = x + channel * height * width;
          const float* taps = weight + (filter * channels + channel) * 9;
          for (std::int64_t down = 0; down < 3; ++down) {
            const std::int64_t i = row + down - 1;
            if (i < 0 || i >= height) continue;
            for (std::int64_t across = 0; across < 3; ++across) {
              const std::int64_t j = col + across - 1;
              if (j < 0 || j >= width) continue;
              sum += plane[i * width + j] * taps[down * 3 + across];
            }
          }
        }
        y[(filter * height + row) * width + col] = sum;
      }
    }
  }
  return 0;
}
