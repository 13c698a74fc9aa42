// kernel: attention/naive/cpu
// shapes: q (bh, seq, dim) float32 contiguous, k (bh, seq, dim) float32 contiguous, v (bh, seq, dim) float32 contiguous -> o (bh, seq, dim) float32 contiguous; bh >= 0, seq >= 0, dim >= 1
// launch: one thread, one query row after another
// shared: none
// work: algorithm 16 B per element of q and 4 dim FLOP per score; here the same FLOP and one libm expf per score, k and v read once per query row
// roof: latency of one scalar core (one chain of additions per score, expf), far below the vector units
// tolerance: float32 atol 2.0e-6 rtol 1.0e-5 matched_ratio 1.0 max_error 1.0e-5
// measured: 73.2 ms at medium, session 2026-11-21-attention
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace {

float dot(const float* x, const float* y, std::int64_t dim) {
  float sum = 0.0f;
  for (std::int64_t d = 0; d < dim; ++d) {
    sum += x[d] * y[d];
  }
  return sum;
}

void attend(const float* q, const float* k, const float* v, float* o, std::vector<float>& scores,
            std::int64_t dim) {
  const auto seq = static_cast<std::int64_t>(scores.size());
  const float scale = 1.0f / std::sqrt(static_cast<float>(dim));
  for (std::int64_t j = 0; j < seq; ++j) {
    scores[j] = dot(q, k + j * dim, dim) * scale;
  }

  // Subtracting the maximum keeps every exponent <= 0, so nothing overflows.
  const float most = *std::max_element(scores.begin(), scores.end());
  float sum = 0.0f;
  for (float& score : scores) {
    score = std::exp(score - most);
    sum += score;
  }

  std::fill(o, o + dim, 0.0f);
  for (std::int64_t j = 0; j < seq; ++j) {
    for (std::int64_t d = 0; d < dim; ++d) {
      o[d] += scores[j] / sum * v[j * dim + d];
    }
  }
}

}  // namespace

extern "C" int attention(const float* q, const float* k, const float* v, float* o,
                         std::int64_t bh, std::int64_t seq, std::int64_t dim, void* /*stream*/) {
  std::vector<float> scores(seq);
  for (std::int64_t row = 0; row < bh * seq; ++row) {
    const std::int64_t head = row / seq * seq * dim;
    attend(q + row * dim, k + head, v + head, o + row * dim, scores, dim);
  }
  return 0;
}
