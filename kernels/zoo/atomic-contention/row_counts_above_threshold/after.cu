// kernel: row_counts_above_threshold/after/cuda
// change: one atomic for each warp of 32 values
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
  const unsigned votes = __ballot_sync(0xffffffffu, above);
  if (threadIdx.x % 32 == 0 && votes != 0) atomicAdd(&counts[i / cols], __popc(votes));
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
