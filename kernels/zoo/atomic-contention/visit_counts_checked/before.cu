// kernel: visit_counts_checked/before/cuda
// flaw: each atomic returns the old count, only to check that it is not negative
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 132 * 8;

__global__ void __launch_bounds__(kThreads)
    add_visits(const int* __restrict__ cells, int* __restrict__ visits, std::int64_t n) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < n;
       i += stride) {
    if (atomicAdd(&visits[cells[i]], 1) < 0) __trap();
  }
}

}  // namespace

extern "C" int count_visits(const int* cells, const int* start, int* visits, std::int64_t n,
                            void* stream) {
  (void)start;
  add_visits<<<kBlocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(cells, visits, n);
  return static_cast<int>(cudaGetLastError());
}
