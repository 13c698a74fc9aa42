// kernel: hash_chain_mixed_lengths/before/cuda
// flaw: the lanes of a warp walk chains of random lengths, and the longest holds up the others
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;

__device__ unsigned walk(unsigned state, int length) {
  for (int step = 0; step < length; ++step) {
    state = state * 1664525u + 1013904223u;
    state ^= state >> 15;
  }
  return state;
}

__global__ void __launch_bounds__(kThreads)
    find_chain_ends(const int* __restrict__ seeds, const int* __restrict__ lengths,
                    int* __restrict__ ends, int n) {
  const int first = blockIdx.x * kThreads;
  const int i = first + threadIdx.x;
  if (i < n) ends[i] = static_cast<int>(walk(seeds[i], lengths[i]) & 0x7fffffffu);
}

}  // namespace

extern "C" int walk_chains(const int* seeds, const int* lengths, int* ends, std::int64_t n,
                           void* stream) {
  const int blocks = static_cast<int>((n + kThreads - 1) / kThreads);
  find_chain_ends<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      seeds, lengths, ends, static_cast<int>(n));
  return static_cast<int>(cudaGetLastError());
}
