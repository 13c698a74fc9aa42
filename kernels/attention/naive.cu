// kernel: attention/naive/cuda
// shapes: q (bh, seq, dim) float32 contiguous, k (bh, seq, dim) float32 contiguous, v (bh, seq, dim) float32 contiguous -> o (bh, seq, dim) float32 contiguous; bh >= 0, seq >= 0, 1 <= dim <= 128
// launch: grid ceil(bh * seq / 128), block 128; one thread per query row
// shared: none
// work: algorithm 16 B per element of q and 4 dim FLOP per score; here each score is computed three times, two loads of 4 B per multiply-add, q and o uncoalesced, o read and written once per key
// roof: FP32 FMA units for the algorithm; this variant is held far below them by uncoalesced sectors and by too few threads
// tolerance: float32 atol 2.0e-6 rtol 1.0e-5 matched_ratio 1.0 max_error 1.0e-5
// measured: 30.10 ms at large, session 2026-11-21-attention
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

namespace {

constexpr int kThreads = 128;
constexpr int kMaxDim = 128;
constexpr std::int64_t kMaxBlocks = 2147483647;

__device__ float dot(const float* x, const float* y, int dim) {
  float sum = 0.0f;
  for (int d = 0; d < dim; ++d) {
    sum += x[d] * y[d];
  }
  return sum;
}

__device__ void attend(const float* q, const float* k, const float* v, float* o, std::int64_t seq,
                       int dim) {
  const float scale = 1.0f / sqrtf(static_cast<float>(dim));
  float most = dot(q, k, dim) * scale;
  for (std::int64_t j = 1; j < seq; ++j) {
    most = fmaxf(most, dot(q, k + j * dim, dim) * scale);
  }

  // Subtracting the maximum keeps every exponent <= 0, so nothing overflows.
  float sum = 0.0f;
  for (std::int64_t j = 0; j < seq; ++j) {
    sum += expf(dot(q, k + j * dim, dim) * scale - most);
  }

  for (int d = 0; d < dim; ++d) {
    o[d] = 0.0f;
  }
  for (std::int64_t j = 0; j < seq; ++j) {
    const float weight = expf(dot(q, k + j * dim, dim) * scale - most) / sum;
    for (int d = 0; d < dim; ++d) {
      o[d] += weight * v[j * dim + d];
    }
  }
}

__global__ void attention_thread_per_row(const float* q, const float* k, const float* v, float* o,
                                         std::int64_t bh, std::int64_t seq, int dim) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; row < bh * seq; row += stride) {
    const std::int64_t head = row / seq * seq * dim;
    attend(q + row * dim, k + head, v + head, o + row * dim, seq, dim);
  }
}

}  // namespace

extern "C" int attention(const float* q, const float* k, const float* v, float* o,
                         std::int64_t bh, std::int64_t seq, std::int64_t dim, void* stream) {
  if (dim > kMaxDim) return static_cast<int>(cudaErrorInvalidValue);
  if (bh == 0 || seq == 0) return 0;
  const std::int64_t rows = bh * seq;
  const auto blocks =
      static_cast<unsigned>(std::min((rows + kThreads - 1) / kThreads, kMaxBlocks));
  attention_thread_per_row<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      q, k, v, o, bh, seq, static_cast<int>(dim));
  return static_cast<int>(cudaGetLastError());
}
