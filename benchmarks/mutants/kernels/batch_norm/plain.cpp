#include <cmath>
#include <cstdint>

extern "C" int batch_norm(const float* x, const float* mean, const float* variance,
                          const float* weight, const float* bias, float* y, std::int64_t batch,
                          std::int64_t channels, std::int64_t length, void*) {
  for (std::int64_t item = 0; item < batch; ++item) {
    for (std::int64_t channel = 0; channel < channels; ++channel) {
      const float scale = weight[channel] / std::sqrt(variance[channel] + 1e-3f);
      const std::int64_t first = (item * channels + channel) * length;
      for (std::int64_t i = 0; i < length; ++i) {
        y[first + i] = (x[first + i] - mean[channel]) * scale + bias[channel];
      }
    }
  }
  return 0;
}
