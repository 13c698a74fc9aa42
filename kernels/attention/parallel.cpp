// kernel: attention/parallel/cpu
// shapes: q (bh, seq, dim) float32 contiguous, k (bh, seq, dim) float32 contiguous, v (bh, seq, dim) float32 contiguous -> o (bh, seq, dim) float32 contiguous; bh >= 0, seq >= 0, dim >= 1; inputs free of NaN
// launch: OpenMP, query rows of all heads split statically over the threads; one thread below 16384 scores
// shared: none
// work: algorithm 16 B per element of q and 4 dim FLOP per score; here about 20 FLOP more per score for the polynomial exponential, k and v read once per query row, from L2 while a head fits
// roof: FMA units for the algorithm; this variant is held below them by its loads, one per multiply-add
// tolerance: float32 atol 2.0e-6 rtol 1.0e-5 matched_ratio 1.0 max_error 1.0e-5
// measured: 6.06 ms at medium, session 2026-11-21-attention
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

namespace {

// Below this size starting the threads costs more than the work they share.
constexpr std::int64_t kParallelScores = 16384;

// libm's expf is a call, and one call keeps a loop scalar. This one has no branch and no table, so
// the compiler can put it in vector lanes. For x <= 0: e^x = 2^n * e^r, n = round(x / ln 2),
// |r| <= ln(2)/2. The error is below 1.1 ulp (1.4 without fused multiply-add); results under the
// smallest normal float become 0.
inline float exp_nonpositive(float x) {
  constexpr float kSmallest = -0x1.5d589ep+6f;  // 2^-126 is e to this power
  constexpr float kLog2E = 0x1.715476p+0f;
  // ln 2 in two parts: n * kLn2High is exact for every n that occurs (7 bits times 17 bits).
  constexpr float kLn2High = 0x1.62e4p-1f;
  constexpr float kLn2Low = 0x1.7f7d1cp-20f;
  // Adding 1.5 * 2^23 rounds to an integer and leaves that integer in the low mantissa bits.
  constexpr float kRound = 12582912.0f;
  constexpr std::uint32_t kOneBits = 0x3f800000u;

  const float clamped = x < kSmallest ? kSmallest : x;
  const float shifted = clamped * kLog2E + kRound;
  const float n = shifted - kRound;
  const float r = (clamped - n * kLn2High) - n * kLn2Low;

  // Minimax in relative error over |r| <= ln(2)/2 (2e-9), and exact at r = 0: the row maximum
  // maps to 1.
  float p = 0x1.6ae6e0p-10f;
  p = p * r + 0x1.1267d8p-7f;
  p = p * r + 0x1.555824p-5f;
  p = p * r + 0x1.555418p-3f;
  p = p * r + 0x1.fffffcp-2f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;

  std::uint32_t bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits = (bits << 23) + kOneBits;
  float scale;
  std::memcpy(&scale, &bits, sizeof scale);
  return x < kSmallest ? 0.0f : p * scale;
}

// Strict floating point forbids reordering a sum or a maximum. The reduction clauses permit it
// here, and here only; -ffast-math would permit it everywhere.
inline float dot(const float* __restrict x, const float* __restrict y, std::int64_t dim) {
  float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t d = 0; d < dim; ++d) {
    sum += x[d] * y[d];
  }
  return sum;
}

// Four keys at a time: their four chains of additions run side by side.
inline void dot_four(const float* __restrict q, const float* __restrict k, std::int64_t dim,
                     float scale, float* scores) {
  float sum0 = 0.0f;
  float sum1 = 0.0f;
  float sum2 = 0.0f;
  float sum3 = 0.0f;
#pragma omp simd reduction(+ : sum0, sum1, sum2, sum3)
  for (std::int64_t d = 0; d < dim; ++d) {
    sum0 += q[d] * k[d];
    sum1 += q[d] * k[d + dim];
    sum2 += q[d] * k[d + 2 * dim];
    sum3 += q[d] * k[d + 3 * dim];
  }
  scores[0] = sum0 * scale;
  scores[1] = sum1 * scale;
  scores[2] = sum2 * scale;
  scores[3] = sum3 * scale;
}

inline float maximum(const float* __restrict x, std::int64_t count) {
  float most = x[0];
#pragma omp simd reduction(max : most)
  for (std::int64_t i = 0; i < count; ++i) {
    most = most < x[i] ? x[i] : most;
  }
  return most;
}

// Replaces each score by its exponential, and returns their sum.
inline float exponentiate(float* __restrict x, std::int64_t count, float most) {
  float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < count; ++i) {
    const float e = exp_nonpositive(x[i] - most);
    x[i] = e;
    sum += e;
  }
  return sum;
}

inline void add_scaled(float weight, const float* __restrict v, float* __restrict o,
                       std::int64_t dim) {
#pragma omp simd
  for (std::int64_t d = 0; d < dim; ++d) {
    o[d] += weight * v[d];
  }
}

// Four keys at a time, or each multiply-add would need a load and a store of o.
inline void add_four(const float* weights, const float* __restrict v, float* __restrict o,
                     std::int64_t dim) {
  const float w0 = weights[0];
  const float w1 = weights[1];
  const float w2 = weights[2];
  const float w3 = weights[3];
#pragma omp simd
  for (std::int64_t d = 0; d < dim; ++d) {
    o[d] += w0 * v[d] + w1 * v[d + dim] + w2 * v[d + 2 * dim] + w3 * v[d + 3 * dim];
  }
}

void attend(const float* q, const float* k, const float* v, float* o, std::vector<float>& scores,
            std::int64_t dim) {
  const auto seq = static_cast<std::int64_t>(scores.size());
  const float scale = 1.0f / std::sqrt(static_cast<float>(dim));
  const std::int64_t whole = seq - seq % 4;
  for (std::int64_t j = 0; j < whole; j += 4) {
    dot_four(q, k + j * dim, dim, scale, scores.data() + j);
  }
  for (std::int64_t j = whole; j < seq; ++j) {
    scores[j] = dot(q, k + j * dim, dim) * scale;
  }

  const float sum = exponentiate(scores.data(), seq, maximum(scores.data(), seq));
  const float inverse = 1.0f / sum;
  std::fill(o, o + dim, 0.0f);
  for (std::int64_t j = 0; j < whole; j += 4) {
    add_four(scores.data() + j, v + j * dim, o, dim);
  }
  for (std::int64_t j = whole; j < seq; ++j) {
    add_scaled(scores[j], v + j * dim, o, dim);
  }
#pragma omp simd
  for (std::int64_t d = 0; d < dim; ++d) {
    o[d] *= inverse;
  }
}

}  // namespace

extern "C" int attention(const float* q, const float* k, const float* v, float* o,
                         std::int64_t bh, std::int64_t seq, std::int64_t dim, void* /*stream*/) {
#pragma omp parallel if (bh * seq * seq >= kParallelScores)
  {
    std::vector<float> scores(seq);
#pragma omp for schedule(static)
    for (std::int64_t row = 0; row < bh * seq; ++row) {
      const std::int64_t head = row / seq * seq * dim;
      attend(q + row * dim, k + head, v + head, o + row * dim, scores, dim);
    }
  }
  return 0;
}
