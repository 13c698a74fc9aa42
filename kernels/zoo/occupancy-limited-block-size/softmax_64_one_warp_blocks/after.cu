// kernel: softmax_64_one_warp_blocks/after/cuda
// change: blocks of 32 -> 256 threads, eight rows a block
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kCols = 64;

__global__ void __launch_bounds__(kThreads)
    softmax_short_rows(const float2* __restrict__ x, float2* __restrict__ y, int rows) {
  const int row = (blockIdx.x * kThreads + threadIdx.x) / 32;
  if (row >= rows) return;
  const std::int64_t at = static_cast<std::int64_t>(row) * (kCols / 2) + threadIdx.x % 32;
  const float2 value = x[at];
  float largest = fmaxf(value.x, value.y);
  for (int step = 16; step > 0; step /= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, step));
  }
  const float2 weight = make_float2(expf(value.x - largest), expf(value.y - largest));
  float sum = weight.x + weight.y;
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  const float share = 1.f / sum;
  y[at] = make_float2(weight.x * share, weight.y * share);
}

}  // namespace

extern "C" int softmax(const float* x, float* y, std::int64_t rows, void* stream) {
  const int blocks = static_cast<int>((rows * 32 + kThreads - 1) / kThreads);
  softmax_short_rows<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      reinterpret_cast<const float2*>(x), reinterpret_cast<float2*>(y), static_cast<int>(rows));
  return static_cast<int>(cudaGetLastError());
}
