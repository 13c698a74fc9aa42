// kernel: softmax_row_a_thread/after/cuda
// change: a block of 128 threads works on one row instead of 128 rows
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 128;

__device__ float reduce_max(float value, float* of_warp) {
  for (int step = 16; step > 0; step /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, step));
  }
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
  __syncthreads();
  float result = of_warp[0];
  for (int w = 1; w < kThreads / 32; ++w) result = fmaxf(result, of_warp[w]);
  return result;
}

__device__ float reduce_sum(float value, float* of_warp) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
  __syncthreads();
  float result = 0.0f;
  for (int w = 0; w < kThreads / 32; ++w) result += of_warp[w];
  return result;
}

__global__ void __launch_bounds__(kThreads)
    normalize_rows(const float* __restrict__ x, float* __restrict__ y, int rows, int cols) {
  __shared__ float warp_max[kThreads / 32], warp_sum[kThreads / 32];
  const int row = blockIdx.x;
  const int first = threadIdx.x;
  constexpr int step = kThreads;
  const float* from = x + static_cast<std::int64_t>(row) * cols;
  float* to = y + static_cast<std::int64_t>(row) * cols;
  float largest = -INFINITY;
  for (int c = first; c < cols; c += step) largest = fmaxf(largest, from[c]);
  largest = reduce_max(largest, warp_max);
  float sum = 0.0f;
  for (int c = first; c < cols; c += step) sum += expf(from[c] - largest);
  sum = reduce_sum(sum, warp_sum);
  const float scale = 1.0f / sum;
  for (int c = first; c < cols; c += step) to[c] = expf(from[c] - largest) * scale;
}

}  // namespace

extern "C" int softmax(const float* x, float* y, std::int64_t rows, std::int64_t cols,
                       void* stream) {
  const unsigned blocks = static_cast<unsigned>(rows);
  normalize_rows<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      x, y, static_cast<int>(rows), static_cast<int>(cols));
  return static_cast<int>(cudaGetLastError());
}
