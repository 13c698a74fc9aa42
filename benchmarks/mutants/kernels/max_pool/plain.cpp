#include <cmath>
#include <cstdint>

extern "C" int max_pool(const float* x, float* y, std::int64_t channels, std::int64_t height,
                        std::int64_t width, std::int64_t out_height, std::int64_t out_width,
                        void*) {
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    for (std::int64_t row = 0; row < out_height; ++row) {
      for (std::int64_t col = 0; col < out_width; ++col) {
        float best = -INFINITY;
        for (std::int64_t down = 0; down < 2; ++down) {
          for (std::int64_t across = 0; across < 2; ++across) {
            const std::int64_t i = row * 2 + down;
            const std::int64_t j = col * 2 + across;
            const float value = x[(channel * height + i) * width + j];
            if (value > best || std::isnan(value)) best = value;
          }
        }
        y[(channel * out_height + row) * out_width + col] = best;
      }
    }
  }
  return 0;
}
