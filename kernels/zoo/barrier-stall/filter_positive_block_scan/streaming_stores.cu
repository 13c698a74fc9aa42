// kernel: filter_positive_block_scan/streaming-stores/cuda
// change: loads and stores are marked as streaming
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kTile = 1024;

__global__ void __launch_bounds__(kTile)
    pack_tile(const float* __restrict__ values, float* __restrict__ packed,
              int* __restrict__ counts) {
  __shared__ int sums[2][kTile];
  const int i = threadIdx.x;
  const std::int64_t base = static_cast<std::int64_t>(blockIdx.x) * kTile;
  const float value = __ldcs(values + base + i);
  const bool is_kept = value > 0.0f;
  int current = 0;
  sums[current][i] = is_kept;
  __syncthreads();
  for (int step = 1; step < kTile; step *= 2) {
    int sum = sums[current][i];
    if (i >= step) sum += sums[current][i - step];
    current ^= 1;
    sums[current][i] = sum;
    __syncthreads();
  }
  const int count = sums[current][kTile - 1];
  if (is_kept) __stcs(packed + base + sums[current][i] - 1, value);
  if (i >= count) __stcs(packed + base + i, 0.0f);
  if (i == 0) counts[blockIdx.x] = count;
}

}  // namespace

extern "C" int pack_positive(const float* values, float* packed, int* counts, std::int64_t tiles,
                             void* stream) {
  pack_tile<<<static_cast<unsigned>(tiles), kTile, 0, static_cast<cudaStream_t>(stream)>>>(
      values, packed, counts);
  return static_cast<int>(cudaGetLastError());
}
