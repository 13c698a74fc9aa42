// kernel: kv_cache_fill/after/cuda
// change: each thread loads 4 chunks of 16 bytes before it stores them
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kHeads = 8;
constexpr int kChunks = 16;  // of 16 bytes, in a head of 128 values
constexpr int kPerThread = 4;

__global__ void __launch_bounds__(kThreads)
    fill_cache(const uint4* __restrict__ projected, uint4* __restrict__ keys,
               uint4* __restrict__ values, int length, unsigned count) {
  const unsigned first = blockIdx.x * (kThreads * kPerThread) + threadIdx.x;
  uint4 loaded[kPerThread];
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) {
    const unsigned i = first + k * kThreads;
    if (i < count) loaded[k] = projected[i];
  }
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) {
    const unsigned i = first + k * kThreads;
    if (i >= count) return;
    const unsigned chunk = i % kChunks;
    const unsigned head = i / kChunks % kHeads;
    const unsigned is_value = i / (kChunks * kHeads) % 2;
    const unsigned token = i / (kChunks * kHeads * 2);
    const unsigned sequence = token / length;
    const unsigned position = token % length;
    uint4* cache = is_value ? values : keys;
    cache[((sequence * kHeads + head) * length + position) * kChunks + chunk] = loaded[k];
  }
}

}  // namespace

extern "C" int kv_cache_fill(const __nv_bfloat16* projected, __nv_bfloat16* keys,
                             __nv_bfloat16* values, std::int64_t batch, std::int64_t length,
                             void* stream) {
  const std::int64_t count = batch * length * 2 * kHeads * kChunks;
  constexpr int kPerBlock = kThreads * kPerThread;
  const auto blocks = static_cast<unsigned>((count + kPerBlock - 1) / kPerBlock);
  fill_cache<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      reinterpret_cast<const uint4*>(projected), reinterpret_cast<uint4*>(keys),
      reinterpret_cast<uint4*>(values), static_cast<int>(length), static_cast<unsigned>(count));
  return static_cast<int>(cudaGetLastError());
}
