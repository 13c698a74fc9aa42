// kernel: nibble_counts_per_thread/after/cuda
// change: 16 words of shared memory for each of 256 threads, interleaved by thread
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 132 * 8;
constexpr int kBins = 16;

union Bytes {
  uint4 packed;
  std::uint8_t value[16];
};

__global__ void __launch_bounds__(kThreads)
    count_bytes(const uint4* __restrict__ keys, int* __restrict__ counts, int vectors) {
  __shared__ int columns[kBins * kThreads];
  int* own = columns + threadIdx.x;
  for (int b = 0; b < kBins; ++b) own[b * kThreads] = 0;
  for (int i = blockIdx.x * kThreads + threadIdx.x; i < vectors; i += kBlocks * kThreads) {
    Bytes key;
    key.packed = keys[i];
#pragma unroll
    for (int k = 0; k < 16; ++k) ++own[key.value[k] * kThreads];
  }
#pragma unroll
  for (int b = 0; b < kBins; ++b) {
    const int sum = __reduce_add_sync(0xffffffffu, own[b * kThreads]);
    if (threadIdx.x % 32 == 0) atomicAdd(&counts[b], sum);
  }
}

}  // namespace

extern "C" int count_values(const std::uint8_t* keys, const int* start, int* counts,
                            std::int64_t n, void* stream) {
  (void)start;
  count_bytes<<<kBlocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      reinterpret_cast<const uint4*>(keys), counts, static_cast<int>(n / 16));
  return static_cast<int>(cudaGetLastError());
}
