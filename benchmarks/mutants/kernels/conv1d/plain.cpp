#include <cstdint>

extern "C" int conv1d(const float* x, const float* weight, const float* bias, float* y,
                      std::int64_t channels, std::int64_t length, std::int64_t filters, void*) {
  for (std::int64_t filter = 0; filter < filters; ++filter) {
    for (std::int64_t at = 0; at < length; ++at) {
      float sum = bias[filter];
      for (std::int64_t channel = 0; channel < channels; ++channel) {
        for (std::int64_t tap = 0; tap < 3; ++tap) {
          const std::int64_t from = at + tap - 1;
          if (from < 0 || from >= length) continue;
          sum += x[channel * length + from] * weight[(filter * channels + channel) * 3 + tap];
        }
      }
      y[filter * length + at] = sum;
    }
  }
  return 0;
}
