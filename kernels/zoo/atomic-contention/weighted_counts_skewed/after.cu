// kernel: weighted_counts_skewed/after/cuda
// change: 32 copies instead of 1 of the histogram of a block, one for each lane and its bank
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 132 * 6;
constexpr int kBins = 256;
constexpr int kCopies = 32;

union Bytes {
  uint4 packed;
  std::uint8_t value[16];
};

__global__ void __launch_bounds__(kThreads)
    sum_weights(const uint4* __restrict__ keys, const uint4* __restrict__ weights,
                int* __restrict__ sums, int vectors) {
  __shared__ int own[kBins * kCopies];
  for (int i = threadIdx.x; i < kBins * kCopies; i += kThreads) own[i] = 0;
  __syncthreads();
  const int copy = threadIdx.x % kCopies;
  for (int i = blockIdx.x * kThreads + threadIdx.x; i < vectors; i += kBlocks * kThreads) {
    Bytes key;
    Bytes weight;
    key.packed = keys[i];
    weight.packed = weights[i];
#pragma unroll
    for (int k = 0; k < 16; ++k) {
      atomicAdd(&own[key.value[k] * kCopies + copy], static_cast<int>(weight.value[k]));
    }
  }
  __syncthreads();
  int sum = 0;
  for (int k = 0; k < kCopies; ++k) {
    sum += own[threadIdx.x * kCopies + (threadIdx.x + k) % kCopies];
  }
  if (sum != 0) atomicAdd(&sums[threadIdx.x], sum);
}

}  // namespace

extern "C" int weighted_counts(const std::uint8_t* keys, const std::uint8_t* weights,
                               const int* start, int* sums, std::int64_t n, void* stream) {
  (void)start;
  static_assert(kBins == kThreads);
  sum_weights<<<kBlocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      reinterpret_cast<const uint4*>(keys), reinterpret_cast<const uint4*>(weights), sums,
      static_cast<int>(n / 16));
  return static_cast<int>(cudaGetLastError());
}
