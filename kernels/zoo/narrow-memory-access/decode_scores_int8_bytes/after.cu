// kernel: decode_scores_int8_bytes/after/cuda
// change: eight lanes for a token, 16 bytes for each load
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kWarps = 8;
constexpr int kTokens = 512;  // of a block
constexpr int kDim = 128;
constexpr int kLanes = 8;  // of a token, with 16 bytes each

// A block scores some tokens of one head, a warp four tokens at a time.
__global__ void __launch_bounds__(kWarps * 32)
    score_tokens(const __half* __restrict__ query, const std::int8_t* __restrict__ keys,
                 const float* __restrict__ scales, float* __restrict__ scores, int context) {
  const int lane = threadIdx.x % kLanes;
  const int member = threadIdx.x / kLanes;
  const std::int64_t start = static_cast<std::int64_t>(blockIdx.y) * context;
  float own[16];
#pragma unroll
  for (int k = 0; k < 16; ++k) own[k] = __half2float(query[blockIdx.y * kDim + 16 * lane + k]);
  const int first = blockIdx.x * kTokens;
  const int last = min(first + kTokens, context);
  for (int base = first; base < last; base += kWarps * 32 / kLanes) {
    const int token = base + member;
    float sum = 0.0f;
    if (token < last) {
      const int4 packed =
          *reinterpret_cast<const int4*>(keys + (start + token) * kDim + 16 * lane);
      const int words[4] = {packed.x, packed.y, packed.z, packed.w};
#pragma unroll
      for (int k = 0; k < 16; ++k) {
        sum += own[k] * static_cast<float>(static_cast<std::int8_t>(words[k / 4] >> (8 * (k % 4))));
      }
    }
    for (int step = kLanes / 2; step > 0; step /= 2) {
      sum += __shfl_xor_sync(0xffffffffu, sum, step);
    }
    if (lane == 0 && token < last) scores[start + token] = sum * scales[start + token];
  }
}

}  // namespace

extern "C" int decode_scores(const __half* query, const std::int8_t* keys, const float* scales,
                             float* scores, std::int64_t heads, std::int64_t context,
                             void* stream) {
  const auto parts = static_cast<unsigned>((context + kTokens - 1) / kTokens);
  const dim3 grid(parts, static_cast<unsigned>(heads));
  score_tokens<<<grid, kWarps * 32, 0, static_cast<cudaStream_t>(stream)>>>(
      query, keys, scales, scores, static_cast<int>(context));
  return static_cast<int>(cudaGetLastError());
}
