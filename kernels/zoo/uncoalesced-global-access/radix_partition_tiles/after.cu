// kernel: radix_partition_tiles/after/cuda
// change: keys go to their places in a tile of shared memory, which is written in order
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kTile = 4096;
constexpr int kRounds = kTile / kThreads;
constexpr int kBits = 6;
constexpr int kPartitions = 1 << kBits;

__global__ void __launch_bounds__(kThreads)
    partition_tile(const int* __restrict__ keys, int* __restrict__ grouped,
                   int* __restrict__ starts) {
  __shared__ int counts[kWarps][kPartitions];
  __shared__ int totals[kPartitions];
  __shared__ int staged[kTile];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int i = threadIdx.x; i < kWarps * kPartitions; i += kThreads) {
    counts[i / kPartitions][i % kPartitions] = 0;
  }
  __syncthreads();

  const std::int64_t base = static_cast<std::int64_t>(blockIdx.x) * kTile;
  const int* own = keys + base + warp * (kTile / kWarps);
  int key[kRounds], rank[kRounds];
#pragma unroll
  for (int r = 0; r < kRounds; ++r) key[r] = own[r * 32 + lane];
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    const int digit = key[r] & (kPartitions - 1);
    unsigned peers = 0xffffffffu;
#pragma unroll
    for (int bit = 0; bit < kBits; ++bit) {
      const bool is_set = (digit >> bit) & 1;
      const unsigned votes = __ballot_sync(0xffffffffu, is_set);
      peers &= is_set ? votes : ~votes;
    }
    rank[r] = counts[warp][digit] + __popc(peers & ((1u << lane) - 1));
    __syncwarp();
    if (peers >> lane == 1u) counts[warp][digit] += __popc(peers);
    __syncwarp();
  }
  __syncthreads();

  if (threadIdx.x < kPartitions) {
    int sum = 0;
    for (int w = 0; w < kWarps; ++w) {
      const int count = counts[w][threadIdx.x];
      counts[w][threadIdx.x] = sum;
      sum += count;
    }
    totals[threadIdx.x] = sum;
  }
  __syncthreads();
  if (warp == 0) {
    const int left = totals[2 * lane], right = totals[2 * lane + 1];
    int sum = left + right;
    for (int step = 1; step < 32; step *= 2) {
      const int other = __shfl_up_sync(0xffffffffu, sum, step);
      if (lane >= step) sum += other;
    }
    totals[2 * lane] = sum - left - right;
    totals[2 * lane + 1] = sum - right;
  }
  __syncthreads();
  if (threadIdx.x < kPartitions) {
    starts[blockIdx.x * kPartitions + threadIdx.x] = totals[threadIdx.x];
  }
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    const int digit = key[r] & (kPartitions - 1);
    staged[totals[digit] + counts[warp][digit] + rank[r]] = key[r];
  }
  __syncthreads();
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    grouped[base + r * kThreads + threadIdx.x] = staged[r * kThreads + threadIdx.x];
  }
}

}  // namespace

extern "C" int partition_tiles(const int* keys, int* grouped, int* starts, std::int64_t tiles,
                               void* stream) {
  partition_tile<<<static_cast<unsigned>(tiles), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      keys, grouped, starts);
  return static_cast<int>(cudaGetLastError());
}
