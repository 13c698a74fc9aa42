// kernel: running_row_max_int32/after/cuda
// change: each row is cut into 64 slices of one block, which join their maxima by atomicMax
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 1024;
constexpr int kSlices = 64;

__global__ void __launch_bounds__(kThreads)
    max_of_row(const int* __restrict__ values, int* __restrict__ maxima, std::int64_t cols) {
  __shared__ int warp_max[32];
  const int row = blockIdx.y;
  const int* line = values + row * cols;
  int best = 0;
  for (std::int64_t c = blockIdx.x * kThreads + threadIdx.x; c < cols; c += kSlices * kThreads) {
    best = max(best, line[c]);
  }
  best = __reduce_max_sync(0xffffffffu, best);
  if (threadIdx.x % 32 == 0) warp_max[threadIdx.x / 32] = best;
  __syncthreads();
  if (threadIdx.x < 32) {
    best = __reduce_max_sync(0xffffffffu, warp_max[threadIdx.x]);
    if (threadIdx.x == 0) atomicMax(&maxima[row], best);
  }
}

}  // namespace

extern "C" int row_max(const int* values, const int* running, int* maxima, std::int64_t rows,
                       std::int64_t cols, void* stream) {
  (void)running;
  const dim3 grid(kSlices, static_cast<unsigned>(rows));
  max_of_row<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(values, maxima, cols);
  return static_cast<int>(cudaGetLastError());
}
