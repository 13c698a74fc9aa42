// kernel: row_argmax_thread_per_row/before/cuda
// flaw: each thread walks along a row of its own, so that the lanes of a warp are whole rows apart
#include <cuda_runtime.h>

#include <cfloat>
#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kLanes = 1;

__global__ void __launch_bounds__(kThreads)
    find_largest(const float* __restrict__ x, int* __restrict__ best, std::int64_t rows, int cols) {
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const std::int64_t row = thread / kLanes;
  if (row >= rows) return;
  const float* values = x + row * cols;
  float largest = -FLT_MAX;
  int index = 0;
  for (int c = threadIdx.x % kLanes; c < cols; c += kLanes) {
    const float v = values[c];
    if (v > largest) {
      largest = v;
      index = c;
    }
  }
  best[row] = index;
}

}  // namespace

extern "C" int row_argmax(const float* x, int* best, std::int64_t rows, std::int64_t cols,
                          void* stream) {
  const int blocks = static_cast<int>((rows * kLanes + kThreads - 1) / kThreads);
  find_largest<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      x, best, rows, static_cast<int>(cols));
  return static_cast<int>(cudaGetLastError());
}
