#include <cstdint>

extern "C" int average_pool(const float* x, float* y, std::int64_t channels, std::int64_t length,
                            void*) {
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    for (std::int64_t at = 0; at < length; ++at) {
      float sum = 0.0f;
      std::int64_t count = 0;
      for (std::int64_t from = at - 1; from <= at + 1; ++from) {
        if (from < 0 || from >= length) continue;
        sum += x[channel * length + from];
        count += 1;
      }
      y[channel * length + at] = sum / count;
    }
  }
  return 0;
}
