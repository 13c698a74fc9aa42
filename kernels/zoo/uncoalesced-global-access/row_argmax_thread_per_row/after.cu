// kernel: row_argmax_thread_per_row/after/cuda
// change: 32 lanes instead of 1 for each row, which compare their results by shuffle
#include <cuda_runtime.h>

#include <cfloat>
#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kLanes = 32;

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
  for (int offset = kLanes / 2; offset > 0; offset /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, largest, offset);
    const int other_index = __shfl_xor_sync(0xffffffffu, index, offset);
    if (other > largest || (other == largest && other_index < index)) {
      largest = other;
      index = other_index;
    }
  }
  if (threadIdx.x % kLanes == 0) best[row] = index;
}

}  // namespace

extern "C" int row_argmax(const float* x, int* best, std::int64_t rows, std::int64_t cols,
                          void* stream) {
  const int blocks = static_cast<int>((rows * kLanes + kThreads - 1) / kThreads);
  find_largest<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      x, best, rows, static_cast<int>(cols));
  return static_cast<int>(cudaGetLastError());
}
