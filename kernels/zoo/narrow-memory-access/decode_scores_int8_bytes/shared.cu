// kernel: decode_scores_int8_bytes/shared/cuda
// change: the query is staged in shared memory
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kWarps = 8;
constexpr int kTokens = 512;  // of a block
constexpr int kDim = 128;

// A block scores some tokens of one head, a warp one token at a time.
__global__ void __launch_bounds__(kWarps * 32)
    score_tokens(const __half* __restrict__ query, const std::int8_t* __restrict__ keys,
                 const float* __restrict__ scales, float* __restrict__ scores, int context) {
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const std::int64_t start = static_cast<std::int64_t>(blockIdx.y) * context;
  __shared__ float own[kDim];
  if (threadIdx.x < kDim) own[threadIdx.x] = __half2float(query[blockIdx.y * kDim + threadIdx.x]);
  __syncthreads();
  const int last = min(static_cast<int>(blockIdx.x + 1) * kTokens, context);
  for (int token = blockIdx.x * kTokens + warp; token < last; token += kWarps) {
    const std::int8_t* key = keys + (start + token) * kDim;
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < kDim / 32; ++k) {
      sum += own[lane + 32 * k] * static_cast<float>(key[lane + 32 * k]);
    }
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (lane == 0) scores[start + token] = sum * scales[start + token];
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
