// kernel: cache_lookup_8_way/after/cuda
// change: a thread reads the eight tags of its set in two accesses of 16 bytes
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kWays = 8;
constexpr unsigned kTagMask = 63;
constexpr unsigned kMultiplier = 2654435761u;

__global__ void __launch_bounds__(kThreads)
    look_up(const int* __restrict__ keys, const int* __restrict__ tags,
            const float* __restrict__ entries, float* __restrict__ found, int n,
            unsigned set_mask) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= n) return;
  const unsigned key = static_cast<unsigned>(keys[i]);
  const unsigned set = ((key * kMultiplier) >> 11) & set_mask;
  const int tag = static_cast<int>(key & kTagMask);
  const auto* halves =
      reinterpret_cast<const int4*>(tags + static_cast<std::int64_t>(set) * kWays);
  const int4 low = halves[0];
  const int4 high = halves[1];
  const int set_tags[kWays] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
  int hit = -1;
#pragma unroll
  for (int way = kWays - 1; way >= 0; --way) {
    if (set_tags[way] == tag) hit = way;
  }
  found[i] = hit < 0 ? 0.0f : entries[static_cast<std::int64_t>(set) * kWays + hit];
}

}  // namespace

extern "C" int cache_lookup(const int* keys, const int* tags, const float* entries, float* found,
                            std::int64_t n, std::int64_t sets, void* stream) {
  const auto blocks = static_cast<unsigned>((n + kThreads - 1) / kThreads);
  look_up<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      keys, tags, entries, found, static_cast<int>(n), static_cast<unsigned>(sets - 1));
  return static_cast<int>(cudaGetLastError());
}
