// kernel: column_moments_rows_by_thread/before/cuda
// flaw: the lanes of a warp walk down one column, a whole row of the matrix apart
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kColumns = 1;
constexpr float kEpsilon = 0.01f;

__global__ void __launch_bounds__(kThreads)
    moments(const float* __restrict__ x, float* __restrict__ mean, float* __restrict__ rstd,
            int rows, int cols) {
  __shared__ float sums[kThreads];
  __shared__ float squares[kThreads];
  const int tid = threadIdx.x;
  const int col = blockIdx.x * kColumns + tid % kColumns;
  float sum = 0.0f;
  float square = 0.0f;
  if (col < cols) {
    for (int row = tid / kColumns; row < rows; row += kThreads / kColumns) {
      const float v = x[static_cast<std::int64_t>(row) * cols + col];
      sum += v;
      square += v * v;
    }
  }
  sums[tid] = sum;
  squares[tid] = square;
  __syncthreads();
  for (int half = kThreads / 2; half >= kColumns; half /= 2) {
    if (tid < half) {
      sums[tid] += sums[tid + half];
      squares[tid] += squares[tid + half];
    }
    __syncthreads();
  }
  if (tid < kColumns && col < cols) {
    const float average = sums[tid] / rows;
    mean[col] = average;
    rstd[col] = rsqrtf(squares[tid] / rows - average * average + kEpsilon);
  }
}

}  // namespace

extern "C" int column_moments(const float* x, float* mean, float* rstd, std::int64_t rows,
                              std::int64_t cols, void* stream) {
  const int blocks = static_cast<int>((cols + kColumns - 1) / kColumns);
  moments<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      x, mean, rstd, static_cast<int>(rows), static_cast<int>(cols));
  return static_cast<int>(cudaGetLastError());
}
