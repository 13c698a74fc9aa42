// kernel: row_counts_above_threshold/before/cuda
// flaw: every value above the threshold adds one to the count of its row
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;

// cols is a multiple of 32, so that a warp has values of one row.
__global__ void __launch_bounds__(kThreads)
    count_rows(const float* __restrict__ x, float threshold, int* __restrict__ counts, int size,
               int cols) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  const bool above = i < size && x[i] > threshold;
  if (above) atomicAdd(&counts[i / cols], 1);
}

}  // namespace

extern "C" int count_above(const float* x, double threshold, const int* start, int* counts,
                           std::int64_t rows, std::int64_t cols, void* stream) {
  (void)start;
  const int size = static_cast<int>(rows * cols);
  const int blocks = (size + kThreads - 1) / kThreads;
  count_rows<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      x, static_cast<float>(threshold), counts, size, static_cast<int>(cols));
  return static_cast<int>(cudaGetLastError());
}
