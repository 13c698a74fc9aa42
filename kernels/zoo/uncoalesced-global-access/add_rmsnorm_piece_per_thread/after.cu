// kernel: add_rmsnorm_piece_per_thread/after/cuda
// change: neighbouring threads have neighbouring columns
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;

__device__ float block_sum(float value) {
  __shared__ float sums[kThreads];
  sums[threadIdx.x] = value;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    __syncthreads();
  }
  return sums[0];
}

// A block for each row; a thread has every 256th column.
__global__ void __launch_bounds__(kThreads)
    normalise_rows(const __half* __restrict__ x, const __half* __restrict__ residual,
                   const __half* __restrict__ weight, __half* __restrict__ total,
                   __half* __restrict__ y, int columns) {
  const std::int64_t start = static_cast<std::int64_t>(blockIdx.x) * columns;
  float squares = 0.0f;
  for (int column = threadIdx.x; column < columns; column += kThreads) {
    const float sum = __half2float(x[start + column]) + __half2float(residual[start + column]);
    total[start + column] = __float2half(sum);
    squares += sum * sum;
  }
  const float scale = rsqrtf(block_sum(squares) / columns + 1e-6f);
  for (int column = threadIdx.x; column < columns; column += kThreads) {
    const float sum = __half2float(x[start + column]) + __half2float(residual[start + column]);
    y[start + column] = __float2half(sum * scale * __half2float(weight[column]));
  }
}

}  // namespace

extern "C" int add_rmsnorm(const __half* x, const __half* residual, const __half* weight,
                           __half* total, __half* y, std::int64_t rows, std::int64_t columns,
                           void* stream) {
  normalise_rows<<<static_cast<unsigned>(rows), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      x, residual, weight, total, y, static_cast<int>(columns));
  return static_cast<int>(cudaGetLastError());
}
