// kernel: hash_chain_mixed_lengths/after/cuda
// change: a block orders its 256 chains by length, so that the lanes of a warp end together
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kBuckets = 64;
constexpr int kLengthsPerBucket = 8;

__device__ unsigned walk(unsigned state, int length) {
  for (int step = 0; step < length; ++step) {
    state = state * 1664525u + 1013904223u;
    state ^= state >> 15;
  }
  return state;
}

// Returns the item of the block that this thread takes; items are ordered by length.
__device__ int take_by_length(const int* lengths, int items) {
  __shared__ int counts[kBuckets];
  __shared__ int starts[kBuckets];
  __shared__ int order[kThreads];
  const int thread = threadIdx.x;
  if (thread < kBuckets) counts[thread] = 0;
  __syncthreads();
  const int bucket =
      thread < items ? min(lengths[thread] / kLengthsPerBucket, kBuckets - 1) : kBuckets - 1;
  const int rank = atomicAdd(&counts[bucket], 1);
  __syncthreads();
  if (thread < kBuckets) {
    int start = 0;
    for (int other = 0; other < thread; ++other) start += counts[other];
    starts[thread] = start;
  }
  __syncthreads();
  order[starts[bucket] + rank] = thread;
  __syncthreads();
  return order[thread];
}

__global__ void __launch_bounds__(kThreads)
    find_chain_ends(const int* __restrict__ seeds, const int* __restrict__ lengths,
                    int* __restrict__ ends, int n) {
  const int first = blockIdx.x * kThreads;
  const int i = first + take_by_length(lengths + first, n - first);
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
