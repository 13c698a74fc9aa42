// kernel: gradient_shards_sum/after/cuda
// change: a thread adds two chunks of all ranks, and loads both first
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kRanks = 8;
constexpr int kOwn = 2;

union Chunk {
  uint4 packed;
  __nv_bfloat162 pair[4];
  __device__ Chunk() {}
};

__device__ __forceinline__ void add(float2 (&sum)[4], uint4 packed) {
  Chunk chunk;
  chunk.packed = packed;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 value = __bfloat1622float2(chunk.pair[i]);
    sum[i].x += value.x;
    sum[i].y += value.y;
  }
}

__device__ __forceinline__ uint4 pack(const float2 (&sum)[4]) {
  Chunk chunk;
#pragma unroll
  for (int i = 0; i < 4; ++i) chunk.pair[i] = __float22bfloat162_rn(sum[i]);
  return chunk.packed;
}

// A thread adds two chunks of 8 gradients of all ranks, in the order of the ranks.
__global__ void __launch_bounds__(kThreads)
    add_chunks(const uint4* __restrict__ shards, uint4* __restrict__ out, std::int64_t chunks) {
  const std::int64_t first =
      static_cast<std::int64_t>(blockIdx.x) * (kThreads * kOwn) + threadIdx.x;
  uint4 received[kOwn][kRanks];
#pragma unroll
  for (int own = 0; own < kOwn; ++own) {
    const std::int64_t chunk = first + own * kThreads;
    if (chunk >= chunks) break;
#pragma unroll
    for (int rank = 0; rank < kRanks; ++rank) received[own][rank] = shards[rank * chunks + chunk];
  }
#pragma unroll
  for (int own = 0; own < kOwn; ++own) {
    const std::int64_t chunk = first + own * kThreads;
    if (chunk >= chunks) return;
    float2 sum[4] = {};
#pragma unroll
    for (int rank = 0; rank < kRanks; ++rank) add(sum, received[own][rank]);
    out[chunk] = pack(sum);
  }
}

}  // namespace

extern "C" int add_shards(const __nv_bfloat16* shards, __nv_bfloat16* out, std::int64_t chunks,
                          void* stream) {
  constexpr int kPerBlock = kThreads * kOwn;
  const auto blocks = static_cast<unsigned>((chunks + kPerBlock - 1) / kPerBlock);
  add_chunks<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      reinterpret_cast<const uint4*>(shards), reinterpret_cast<uint4*>(out), chunks);
  return static_cast<int>(cudaGetLastError());
}
