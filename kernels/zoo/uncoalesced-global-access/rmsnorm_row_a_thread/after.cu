// kernel: rmsnorm_row_a_thread/after/cuda
// change: a block of 128 threads works on one row instead of 128 rows
#include <cuda_runtime.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace {

constexpr int kThreads = 128;
constexpr float kEpsilon = 1e-6f;

__device__ float reduce_sum(float value, float* of_warp) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
  __syncthreads();
  float result = 0.0f;
  for (int w = 0; w < kThreads / 32; ++w) result += of_warp[w];
  return result;
}

__global__ void __launch_bounds__(kThreads)
    normalize_rows(const __half* __restrict__ x, const __half* __restrict__ weight,
                   __half* __restrict__ y, int rows, int cols) {
  __shared__ float of_warp[kThreads / 32];
  const int row = blockIdx.x;
  const int first = threadIdx.x;
  constexpr int step = kThreads;
  const __half* from = x + static_cast<std::int64_t>(row) * cols;
  __half* to = y + static_cast<std::int64_t>(row) * cols;
  float squares = 0.0f;
  for (int c = first; c < cols; c += step) {
    const float value = __half2float(from[c]);
    squares += value * value;
  }
  squares = reduce_sum(squares, of_warp);
  const float scale = rsqrtf(squares / cols + kEpsilon);
  for (int c = first; c < cols; c += step) {
    to[c] = __float2half(__half2float(from[c]) * scale * __half2float(weight[c]));
  }
}

}  // namespace

extern "C" int rmsnorm(const __half* x, const __half* weight, __half* y, std::int64_t rows,
                       std::int64_t cols, void* stream) {
  const unsigned blocks = static_cast<unsigned>(rows);
  normalize_rows<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      x, weight, y, static_cast<int>(rows), static_cast<int>(cols));
  return static_cast<int>(cudaGetLastError());
}
