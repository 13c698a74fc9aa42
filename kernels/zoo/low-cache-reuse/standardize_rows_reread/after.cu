// kernel: standardize_rows_reread/after/cuda
// change: each of 768 threads reads its 52 values once and holds them in registers
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 768;
constexpr int kWarps = kThreads / 32;
constexpr int kPerThread = 52;  // rows of up to 39936 values
constexpr float kEpsilon = 1e-5f;

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
  __shared__ float for_mean[kWarps], for_variance[kWarps];
  const float* from = x + static_cast<std::int64_t>(blockIdx.x) * cols + threadIdx.x;
  float* to = y + static_cast<std::int64_t>(blockIdx.x) * cols + threadIdx.x;
  const int left = cols - static_cast<int>(threadIdx.x);  // columns from this thread's first on
  float sum = 0.0f, squares = 0.0f;
  float value[kPerThread];
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) {
    value[k] = k * kThreads < left ? from[k * kThreads] : 0.0f;
    sum += value[k];
  }
  const float mean = reduce_sum(sum, for_mean) / cols;
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) {
    const float centred = k * kThreads < left ? value[k] - mean : 0.0f;
    squares += centred * centred;
  }
  const float scale = rsqrtf(reduce_sum(squares, for_variance) / cols + kEpsilon);
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) {
    if (k * kThreads < left) to[k * kThreads] = (value[k] - mean) * scale;
  }
}

}  // namespace

extern "C" int standardize(const float* x, float* y, std::int64_t rows, std::int64_t cols,
                           void* stream) {
  normalize_rows<<<static_cast<unsigned>(rows), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      x, y, static_cast<int>(cols));
  return static_cast<int>(cudaGetLastError());
}
