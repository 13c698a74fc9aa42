// kernel: column_sums_small_blocks/after/cuda
// change: 32 threads share each column, in blocks of 32 columns by 32 row groups
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kColumns = 32;
constexpr int kGroups = 32;
constexpr int kThreads = kColumns * kGroups;

__global__ void __launch_bounds__(kThreads)
    sum_columns(const float* __restrict__ x, float* __restrict__ sums, int rows, int cols) {
  __shared__ float partial[kGroups][kColumns];
  const int tx = threadIdx.x % kColumns, group = threadIdx.x / kColumns;
  const int column = blockIdx.x * kColumns + tx;
  float sum = 0.0f;
  if (column < cols) {
    for (int r = group; r < rows; r += kGroups) {
      sum += x[static_cast<std::int64_t>(r) * cols + column];
    }
  }
  partial[group][tx] = sum;
  __syncthreads();
  if (group > 0 || column >= cols) return;
  for (int g = 1; g < kGroups; ++g) sum += partial[g][tx];
  sums[column] = sum;
}

}  // namespace

extern "C" int column_sums(const float* x, float* sums, std::int64_t rows, std::int64_t cols,
                           void* stream) {
  const unsigned blocks = static_cast<unsigned>((cols + kColumns - 1) / kColumns);
  sum_columns<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      x, sums, static_cast<int>(rows), static_cast<int>(cols));
  return static_cast<int>(cudaGetLastError());
}
