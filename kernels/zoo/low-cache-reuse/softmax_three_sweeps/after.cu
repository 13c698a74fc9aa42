// kernel: softmax_three_sweeps/after/cuda
// change: one sweep for maximum and sum, with a running maximum
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;

__device__ float reduce_max(float value, float* of_warp) {
  for (int step = 16; step > 0; step /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, step));
  }
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
  __syncthreads();
  float result = of_warp[0];
  for (int w = 1; w < kWarps; ++w) result = fmaxf(result, of_warp[w]);
  return result;
}

__device__ float reduce_sum(float value, float* of_warp) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
  __syncthreads();
  float result = 0.0f;
  for (int w = 0; w < kWarps; ++w) result += of_warp[w];
  return result;
}

__global__ void __launch_bounds__(kThreads)
    normalize_rows(const float* __restrict__ x, float* __restrict__ y, int cols) {
  __shared__ float warp_max[kWarps], warp_sum[kWarps];
  const float* row = x + static_cast<std::int64_t>(blockIdx.x) * cols;
  float* to = y + static_cast<std::int64_t>(blockIdx.x) * cols;
  float largest = -INFINITY;
  float sum = 0.0f;
#pragma unroll 8
  for (int c = threadIdx.x; c < cols; c += kThreads) {
    const float value = row[c];
    if (value > largest) {
      sum *= expf(largest - value);
      largest = value;
    }
    sum += expf(value - largest);
  }
  const float own_largest = largest;
  largest = reduce_max(largest, warp_max);
  sum = reduce_sum(sum * expf(own_largest - largest), warp_sum);
  const float scale = 1.0f / sum;
#pragma unroll 8
  for (int c = threadIdx.x; c < cols; c += kThreads) to[c] = expf(row[c] - largest) * scale;
}

}  // namespace

extern "C" int softmax(const float* x, float* y, std::int64_t rows, std::int64_t cols,
                       void* stream) {
  normalize_rows<<<static_cast<unsigned>(rows), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      x, y, static_cast<int>(cols));
  return static_cast<int>(cudaGetLastError());
}
