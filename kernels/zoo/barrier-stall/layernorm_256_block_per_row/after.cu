// kernel: layernorm_256_block_per_row/after/cuda
// change: a warp normalises a row, so that shuffles replace the barriers; eight rows a block
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kCols = 256;
constexpr float kEpsilon = 1e-5f;

__device__ float sum_row(float value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  return value;
}

__global__ void __launch_bounds__(kThreads)
    normalise_rows(const float* __restrict__ x, const float* __restrict__ gain,
                   const float* __restrict__ bias, float* __restrict__ y, int rows) {
  constexpr int kOwn = kCols / 32;
  const int row = (blockIdx.x * kThreads + threadIdx.x) / 32;
  const int lane = threadIdx.x % 32;
  if (row >= rows) return;
  const std::int64_t at = static_cast<std::int64_t>(row) * kCols + lane;
  float value[kOwn];
  float sum = 0.f, squares = 0.f;
#pragma unroll
  for (int e = 0; e < kOwn; ++e) value[e] = x[at + 32 * e];
#pragma unroll
  for (int e = 0; e < kOwn; ++e) sum += value[e];
  const float mean = sum_row(sum) / kCols;
#pragma unroll
  for (int e = 0; e < kOwn; ++e) {
    value[e] -= mean;
    squares = fmaf(value[e], value[e], squares);
  }
  const float scale = rsqrtf(sum_row(squares) / kCols + kEpsilon);
#pragma unroll
  for (int e = 0; e < kOwn; ++e) {
    const int c = lane + 32 * e;
    y[at + 32 * e] = fmaf(value[e] * scale, gain[c], bias[c]);
  }
}

}  // namespace

extern "C" int layernorm(const float* x, const float* gain, const float* bias, float* y,
                         std::int64_t rows, void* stream) {
  const int blocks = static_cast<int>((rows * 32 + kThreads - 1) / kThreads);
  normalise_rows<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      x, gain, bias, y, static_cast<int>(rows));
  return static_cast<int>(cudaGetLastError());
}
