// kernel: linked_nodes_one_list/before/cuda
// flaw: each warp walks one list, and a node's number comes with the node before it
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 132 * 8;
constexpr int kLength = 16;
constexpr int kWords = 32;
constexpr int kChains = 1;

__global__ void __launch_bounds__(kThreads)
    walk_lists(const int* __restrict__ nodes, const int* __restrict__ heads, int* __restrict__ sums,
               int lists) {
  const int lane = threadIdx.x % 32;
  const int warps = kBlocks * kThreads / 32;
  const int warp = (blockIdx.x * kThreads + threadIdx.x) / 32;
  for (int first = warp; first < lists; first += warps * kChains) {
    int at[kChains];
    int sum[kChains] = {};
#pragma unroll
    for (int c = 0; c < kChains; ++c) at[c] = heads[min(first + c * warps, lists - 1)];
#pragma unroll 1
    for (int step = 0; step < kLength; ++step) {
      int word[kChains];
#pragma unroll
      for (int c = 0; c < kChains; ++c) word[c] = nodes[at[c] * kWords + lane];
#pragma unroll
      for (int c = 0; c < kChains; ++c) {
        sum[c] += word[c];
        at[c] = __shfl_sync(0xffffffffu, word[c], kWords - 1);
      }
    }
#pragma unroll
    for (int c = 0; c < kChains; ++c) {
      const int list = first + c * warps;
      if (list < lists) sums[list * kWords + lane] = sum[c];
    }
  }
}

}  // namespace

extern "C" int sum_lists(const int* nodes, const int* heads, int* sums, std::int64_t lists,
                         void* stream) {
  walk_lists<<<kBlocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(nodes, heads, sums,
                                                                        static_cast<int>(lists));
  return static_cast<int>(cudaGetLastError());
}
