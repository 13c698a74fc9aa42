// kernel: windowed_moments_block_columns/before/cuda
// flaw: a block walks a single column, so that the lanes of a warp are a row apart
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kColumns = 1;
constexpr int kRows = 256;
constexpr int kThreads = kColumns * kRows;
constexpr int kMoments = 3;

/// Means of x, x * x and x * target of every column in every window of rows.
__global__ void __launch_bounds__(kThreads)
    window_moments(const float* __restrict__ samples, const float* __restrict__ target,
                   float* __restrict__ moments, int length, int columns) {
  __shared__ float partial[kMoments][kRows][kColumns];
  const int tx = threadIdx.x % kColumns;
  const int ty = threadIdx.x / kColumns;
  const int column = blockIdx.x * kColumns + tx;
  const std::int64_t window = blockIdx.y;
  float sum = 0.0f;
  float squares = 0.0f;
  float products = 0.0f;
  if (column < columns) {
    for (int row = ty; row < length; row += kRows) {
      const float x = samples[(window * length + row) * columns + column];
      sum += x;
      squares += x * x;
      products += x * target[window * length + row];
    }
  }
  partial[0][ty][tx] = sum;
  partial[1][ty][tx] = squares;
  partial[2][ty][tx] = products;
  __syncthreads();
  for (int half = kRows / 2; half > 0; half /= 2) {
    if (ty < half) {
      for (int m = 0; m < kMoments; ++m) partial[m][ty][tx] += partial[m][ty + half][tx];
    }
    __syncthreads();
  }
  if (ty == 0 && column < columns) {
    for (int m = 0; m < kMoments; ++m) {
      moments[(window * kMoments + m) * columns + column] = partial[m][0][tx] / length;
    }
  }
}

}  // namespace

extern "C" int column_moments(const float* samples, const float* target, float* moments,
                              std::int64_t windows, std::int64_t length, std::int64_t columns,
                              void* stream) {
  const dim3 grid(static_cast<unsigned>((columns + kColumns - 1) / kColumns),
                  static_cast<unsigned>(windows));
  window_moments<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      samples, target, moments, static_cast<int>(length), static_cast<int>(columns));
  return static_cast<int>(cudaGetLastError());
}
