// kernel: layernorm_256_block_per_row/before/cuda
// flaw: 256 threads share a row of 256 values and meet at four barriers for it
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kCols = 256;
constexpr float kEpsilon = 1e-5f;

__device__ float sum_row(float value, float* scratch) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  __syncthreads();
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
  __syncthreads();
  value = 0.f;
  for (int w = 0; w < kThreads / 32; ++w) value += scratch[w];
  return value;
}

__global__ void __launch_bounds__(kThreads)
    normalise_rows(const float* __restrict__ x, const float* __restrict__ gain,
                   const float* __restrict__ bias, float* __restrict__ y, int rows) {
  __shared__ float scratch[kThreads / 32];
  const int row = blockIdx.x;
  const int c = threadIdx.x;
  if (row >= rows) return;
  const std::int64_t at = static_cast<std::int64_t>(row) * kCols + c;
  const float value = x[at];
  const float mean = sum_row(value, scratch) / kCols;
  const float away = value - mean;
  const float scale = rsqrtf(sum_row(away * away, scratch) / kCols + kEpsilon);
  y[at] = fmaf(away * scale, gain[c], bias[c]);
}

}  // namespace

extern "C" int layernorm(const float* x, const float* gain, const float* bias, float* y,
                         std::int64_t rows, void* stream) {
  const int blocks = static_cast<int>(rows);
  normalise_rows<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      x, gain, bias, y, static_cast<int>(rows));
  return static_cast<int>(cudaGetLastError());
}
