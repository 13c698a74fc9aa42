// kernel: follow_links_coarsened/before/cuda
// form: one walker a thread, each hop waits for the one before
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 128;
constexpr int kHops = 256;
constexpr int kMask = 4194304 - 1;
constexpr int kItems = 1;

__global__ void __launch_bounds__(kThreads)
    walk(const int* __restrict__ links, const int* __restrict__ starts, int* __restrict__ ends,
         int n) {
  const int first = blockIdx.x * kThreads * kItems + threadIdx.x;
#pragma unroll 1
  for (int k = 0; k < kItems; ++k) {
    const int i = first + k * kThreads;
    if (i >= n) return;
    int at = starts[i];
#pragma unroll 8
    for (int hop = 0; hop < kHops; ++hop) at = links[(at + hop) & kMask];
    ends[i] = at;
  }
}

}  // namespace

extern "C" int follow_links(const int* links, const int* starts, int* ends, std::int64_t n,
                            void* stream) {
  constexpr int kPerBlock = kThreads * kItems;
  const unsigned blocks = static_cast<unsigned>((n + kPerBlock - 1) / kPerBlock);
  walk<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(links, starts, ends,
                                                                   static_cast<int>(n));
  return static_cast<int>(cudaGetLastError());
}
