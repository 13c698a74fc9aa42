// kernel: histogram_private_counts/before/cuda
// form: one copy of the counters for each block, in shared memory
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 512;
constexpr int kBlocks = 132 * 4;
constexpr int kBins = 2048;
constexpr int kCopies = 1;

// n is a multiple of 4.
__global__ void __launch_bounds__(kThreads)
    count_keys(const int4* __restrict__ keys, int* __restrict__ counts, std::int64_t n4) {
  __shared__ int own[kCopies * kBins];
  for (int i = threadIdx.x; i < kCopies * kBins; i += kThreads) own[i] = 0;
  __syncthreads();
  int* copy = own + threadIdx.x / 32 % kCopies * kBins;
  constexpr std::int64_t kStride = static_cast<std::int64_t>(kBlocks) * kThreads;
#pragma unroll 2
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < n4;
       i += kStride) {
    const int4 key = keys[i];
    atomicAdd(&copy[key.x], 1);
    atomicAdd(&copy[key.y], 1);
    atomicAdd(&copy[key.z], 1);
    atomicAdd(&copy[key.w], 1);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < kBins; i += kThreads) {
    int count = own[i];
    for (int k = 1; k < kCopies; ++k) count += own[k * kBins + i];
    atomicAdd(&counts[i], count);
  }
}

}  // namespace

extern "C" int histogram(const int* keys, const int* start, int* counts, std::int64_t n,
                         void* stream) {
  (void)start;
  count_keys<<<kBlocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      reinterpret_cast<const int4*>(keys), counts, n / 4);
  return static_cast<int>(cudaGetLastError());
}
