// kernel: int4_gemv_grouped_scales/after/cuda
// change: group sizes are powers of two, so the group of a weight is found by a shift
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kWarps = 4;
constexpr int kPerWord = 8;

// A warp a row; a word holds eight weights of four bits, the lowest bits first.
__global__ void __launch_bounds__(kWarps * 32)
    gemv(const unsigned int* __restrict__ weights, const __half* __restrict__ scales,
         const __half* __restrict__ x, __half* __restrict__ y, std::int64_t rows,
         std::int64_t words, std::int64_t groups) {
  const int lane = threadIdx.x % 32;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (row >= rows) return;
  const int count = static_cast<int>(words);
  const int group_shift = __ffs(count * kPerWord / static_cast<int>(groups)) - 1;
  const unsigned int* row_weights = weights + row * words;
  const __half* row_scales = scales + row * groups;
  float sum = 0.0f;
  for (int w = lane; w < count; w += 32) {
    const unsigned int packed = row_weights[w];
    const uint4 loaded = reinterpret_cast<const uint4*>(x)[w];
    const __half2* values = reinterpret_cast<const __half2*>(&loaded);
#pragma unroll
    for (int k = 0; k < kPerWord; ++k) {
      const int column = w * kPerWord + k;
      const int group = column >> group_shift;
      const float weight = static_cast<float>(static_cast<int>(packed >> (4 * k) & 15u) - 8);
      const __half2 two = values[k / 2];
      const float value = __half2float(k % 2 == 0 ? __low2half(two) : __high2half(two));
      sum += weight * __half2float(row_scales[group]) * value;
    }
  }
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  }
  if (lane == 0) y[row] = __float2half(sum);
}

}  // namespace

extern "C" int gemv_int4(const int* weights, const __half* scales, const __half* x, __half* y,
                         std::int64_t rows, std::int64_t words, std::int64_t groups,
                         std::int64_t columns, void* stream) {
  (void)columns;
  const unsigned int blocks = static_cast<unsigned int>((rows + kWarps - 1) / kWarps);
  gemv<<<blocks, kWarps * 32, 0, static_cast<cudaStream_t>(stream)>>>(
      reinterpret_cast<const unsigned int*>(weights), scales, x, y, rows, words, groups);
  return static_cast<int>(cudaGetLastError());
}
