// kernel: histogram_few_bins/before/cuda
// flaw: every thread adds to one of 16 global addresses
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 132 * 8;

__global__ void __launch_bounds__(kThreads)
    count_keys(const int* __restrict__ keys, int* __restrict__ counts, std::int64_t n) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += stride) {
    atomicAdd(&counts[keys[i]], 1);
  }
}

}  // namespace

extern "C" int histogram(const int* keys, const int* start, int* counts, std::int64_t n,
                         void* stream) {
  (void)start;
  count_keys<<<kBlocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(keys, counts, n);
  return static_cast<int>(cudaGetLastError());
}
