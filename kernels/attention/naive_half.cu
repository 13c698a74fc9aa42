// kernel: attention_bf16, attention_fp16/naive/cuda
// shapes: q (bh, seq, dim), k (bh, seq, dim), v (bh, seq, dim) -> o (bh, seq, dim), all contiguous, float16, or bfloat16 with ELEMENT_BF16; bh >= 0, seq >= 0, dim 64 or 128; causal 0 or 1; scores finite
// launch: grid ceil(bh * seq / 128), block 128; one thread per query row
// shared: none
// work: algorithm 8 B per element of q and 4 dim FLOP per score; here two loads of 2 B per multiply-add of q k and one of p v, q and o uncoalesced, two exponentials per score
// roof: FP32 FMA units; far below them by loads of 2 B and by too few threads
// tolerance: by the reference's own error in the element type, see kernel.yaml
// measured: 1.16 ms at b2-h8-s512-d64, session 2026-11-26-attention-ladder
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace {

#ifdef ELEMENT_BF16
using Element = __nv_bfloat16;
#else
using Element = __half;
#endif

constexpr int kThreads = 128;
constexpr std::int64_t kMaxBlocks = 2147483647;

template <int kDim>
__device__ void attend(const Element* q, const Element* k, const Element* v, Element* o,
                       std::int64_t keys) {
  const float scale = 1.0f / sqrtf(static_cast<float>(kDim));
  float sums[kDim] = {};
  float most = -INFINITY;
  float total = 0.0f;
  for (std::int64_t j = 0; j < keys; ++j) {
    float score = 0.0f;
    for (int d = 0; d < kDim; ++d) {
      score += static_cast<float>(q[d]) * static_cast<float>(k[j * kDim + d]);
    }
    score *= scale;
    const float larger = fmaxf(most, score);
    const float shrink = expf(most - larger);
    const float weight = expf(score - larger);
    most = larger;
    total = total * shrink + weight;
#pragma unroll
    for (int d = 0; d < kDim; ++d) {
      sums[d] = sums[d] * shrink + weight * static_cast<float>(v[j * kDim + d]);
    }
  }
#pragma unroll
  for (int d = 0; d < kDim; ++d) {
    o[d] = static_cast<Element>(sums[d] / total);
  }
}

template <int kDim>
__global__ void attention_thread_per_query(const Element* q, const Element* k, const Element* v,
                                           bool causal, Element* o, std::int64_t bh,
                                           std::int64_t seq) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; row < bh * seq; row += stride) {
    const std::int64_t head = row / seq * seq * kDim;
    const std::int64_t keys = causal ? row % seq + 1 : seq;
    attend<kDim>(q + row * kDim, k + head, v + head, o + row * kDim, keys);
  }
}

}  // namespace

extern "C" int attention(const void* q, const void* k, const void* v, std::int64_t causal, void* o,
                         std::int64_t bh, std::int64_t seq, std::int64_t dim, void* stream) {
  if (dim != 64 && dim != 128) return static_cast<int>(cudaErrorInvalidValue);
  if (bh == 0 || seq == 0) return 0;
  const std::int64_t rows = bh * seq;
  const auto blocks =
      static_cast<unsigned>(std::min((rows + kThreads - 1) / kThreads, kMaxBlocks));
  const auto kernel = dim == 64 ? attention_thread_per_query<64> : attention_thread_per_query<128>;
  kernel<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const Element*>(q), static_cast<const Element*>(k),
      static_cast<const Element*>(v), causal != 0, static_cast<Element*>(o), bh, seq);
  return static_cast<int>(cudaGetLastError());
}
