// kernel: rope_block_per_head/after/cuda
// change: a block serves 8 heads of its token with the position and angles read once
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kHeadDim = 128;
constexpr int kHalf = kHeadDim / 2;
constexpr int kHeads = 8;

using Bf16 = __nv_bfloat16;

/// Rotates the pairs (i, i + 64) of every head of q and k by the angle of the token's position.
__global__ void __launch_bounds__(kHalf)
    rotate_heads(const Bf16* __restrict__ q, const Bf16* __restrict__ k,
                 const int* __restrict__ positions, const float* __restrict__ cosines,
                 const float* __restrict__ sines, Bf16* __restrict__ q_out,
                 Bf16* __restrict__ k_out, int q_heads, int kv_heads) {
  const int pair = threadIdx.x;
  const std::int64_t token = blockIdx.x;
  const int position = positions[token];
  const float c = cosines[position * kHalf + pair];
  const float s = sines[position * kHalf + pair];
  const int first = blockIdx.y * kHeads;
  float low[kHeads];
  float high[kHeads];
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    const int head = first + h;
    if (head >= q_heads + kv_heads) continue;
    const bool is_q = head < q_heads;
    const std::int64_t row = is_q ? token * q_heads + head : token * kv_heads + head - q_heads;
    const Bf16* in = (is_q ? q : k) + row * kHeadDim;
    low[h] = __bfloat162float(in[pair]);
    high[h] = __bfloat162float(in[pair + kHalf]);
  }
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    const int head = first + h;
    if (head >= q_heads + kv_heads) continue;
    const bool is_q = head < q_heads;
    const std::int64_t row = is_q ? token * q_heads + head : token * kv_heads + head - q_heads;
    Bf16* out = (is_q ? q_out : k_out) + row * kHeadDim;
    out[pair] = __float2bfloat16(low[h] * c - high[h] * s);
    out[pair + kHalf] = __float2bfloat16(high[h] * c + low[h] * s);
  }
}

}  // namespace

extern "C" int rotary(const void* q, const void* k, const int* positions, const float* cosines,
                      const float* sines, void* q_out, void* k_out, std::int64_t tokens,
                      std::int64_t q_heads, std::int64_t kv_heads, std::int64_t max_positions,
                      void* stream) {
  (void)max_positions;
  const unsigned heads = static_cast<unsigned>(q_heads + kv_heads);
  const dim3 grid(static_cast<unsigned>(tokens), (heads + kHeads - 1) / kHeads);
  rotate_heads<<<grid, kHalf, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const Bf16*>(q), static_cast<const Bf16*>(k), positions, cosines, sines,
      static_cast<Bf16*>(q_out), static_cast<Bf16*>(k_out), static_cast<int>(q_heads),
      static_cast<int>(kv_heads));
  return static_cast<int>(cudaGetLastError());
}
