// kernel: softmax_eight_rows_staged/after/cuda
// change: one row a block instead of eight, 96 KB -> 12 KB of shared memory
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 128;
constexpr int kCols = 3072;
constexpr int kRows = 1;
constexpr int kBytes = kRows * kCols * static_cast<int>(sizeof(float));

__device__ float reduce_block(float value, bool is_max, float* scratch) {
  for (int step = 16; step > 0; step /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, value, step);
    value = is_max ? fmaxf(value, other) : value + other;
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
  __syncthreads();
  value = scratch[0];
  for (int w = 1; w < kThreads / 32; ++w) {
    value = is_max ? fmaxf(value, scratch[w]) : value + scratch[w];
  }
  return value;
}

__global__ void __launch_bounds__(kThreads)
    softmax_rows(const float* __restrict__ x, float* __restrict__ y, int rows) {
  extern __shared__ float staged[];
  __shared__ float scratch[kThreads / 32];
  const int first = blockIdx.x * kRows;
  const int count = min(kRows, rows - first);
  const std::int64_t base = static_cast<std::int64_t>(first) * kCols;
  for (int e = threadIdx.x; e < count * kCols; e += kThreads) staged[e] = x[base + e];
  __syncthreads();
  for (int r = 0; r < count; ++r) {
    float* line = staged + r * kCols;
    float largest = -3.4e38f;
    for (int c = threadIdx.x; c < kCols; c += kThreads) largest = fmaxf(largest, line[c]);
    largest = reduce_block(largest, true, scratch);
    float sum = 0.f;
    for (int c = threadIdx.x; c < kCols; c += kThreads) {
      line[c] = expf(line[c] - largest);
      sum += line[c];
    }
    const float share = 1.f / reduce_block(sum, false, scratch);
    for (int c = threadIdx.x; c < kCols; c += kThreads) y[base + r * kCols + c] = line[c] * share;
  }
}

}  // namespace

extern "C" int softmax(const float* x, float* y, std::int64_t rows, void* stream) {
  cudaFuncSetAttribute(softmax_rows, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  const int blocks = static_cast<int>((rows + kRows - 1) / kRows);
  softmax_rows<<<blocks, kThreads, kBytes, static_cast<cudaStream_t>(stream)>>>(
      x, y, static_cast<int>(rows));
  return static_cast<int>(cudaGetLastError());
}
