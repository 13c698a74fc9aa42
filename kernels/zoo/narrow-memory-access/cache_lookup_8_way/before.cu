// kernel: cache_lookup_8_way/before/cuda
// flaw: a thread reads the eight tags of its set one by one, each in an access of 4 bytes
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
  const int* set_tags = tags + static_cast<std::int64_t>(set) * kWays;
  int hit = -1;
  for (int way = 0; way < kWays; ++way) {
    if (set_tags[way] == tag) {
      hit = way;
      break;
    }
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
