// kernel: filter_positive_block_scan/after/cuda
// change: a vote of each warp and a scan of 32 counts: 2 barriers instead of 11
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kTile = 1024;

__global__ void __launch_bounds__(kTile)
    pack_tile(const float* __restrict__ values, float* __restrict__ packed,
              int* __restrict__ counts) {
  __shared__ int ends[kTile / 32];
  const int i = threadIdx.x;
  const std::int64_t base = static_cast<std::int64_t>(blockIdx.x) * kTile;
  const float value = values[base + i];
  const bool is_kept = value > 0.0f;
  const int lane = i % 32, warp = i / 32;
  const unsigned votes = __ballot_sync(0xffffffffu, is_kept);
  if (lane == 0) ends[warp] = __popc(votes);
  __syncthreads();
  if (warp == 0) {
    int sum = ends[lane];
    for (int step = 1; step < 32; step *= 2) {
      const int other = __shfl_up_sync(0xffffffffu, sum, step);
      if (lane >= step) sum += other;
    }
    ends[lane] = sum;
  }
  __syncthreads();
  const int count = ends[kTile / 32 - 1];
  const int before = warp == 0 ? 0 : ends[warp - 1];
  if (is_kept) packed[base + before + __popc(votes & ((1u << lane) - 1))] = value;
  if (i >= count) packed[base + i] = 0.0f;
  if (i == 0) counts[blockIdx.x] = count;
}

}  // namespace

extern "C" int pack_positive(const float* values, float* packed, int* counts, std::int64_t tiles,
                             void* stream) {
  pack_tile<<<static_cast<unsigned>(tiles), kTile, 0, static_cast<cudaStream_t>(stream)>>>(
      values, packed, counts);
  return static_cast<int>(cudaGetLastError());
}
