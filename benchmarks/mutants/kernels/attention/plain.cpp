#include <cmath>
#include <cstdint>
#include <vector>

extern "C" int attention(const float* q, const float* k, const float* v, float* y,
                         std::int64_t queries, std::int64_t keys, std::int64_t width, void*) {
  const float scale = 1.0f / std::sqrt(float(width));
  std::vector<float> scores(keys);
  for (std::int64_t query = 0; query < queries; ++query) {
    float top = -INFINITY;
    for (std::int64_t key = 0; key < keys; ++key) {
      float dot = 0.0f;
      for (std::int64_t i = 0; i < width; ++i) {
        dot += q[query * width + i] * k[key * width + i];
      }
      scores[key] = dot * scale;
      if (scores[key] > top) top = scores[key];
    }
    float sum = 0.0f;
    for (std::int64_t key = 0; key < keys; ++key) {
      scores[key] = std::exp(scores[key] - top);
      sum += scores[key];
    }
    for (std::int64_t i = 0; i < width; ++i) {
      float total = 0.0f;
      for (std::int64_t key = 0; key < keys; ++key) {
        total += scores[key] * v[key * width + i];
      }
      y[query * width + i] = total / sum;
    }
  }
  return 0;
}
