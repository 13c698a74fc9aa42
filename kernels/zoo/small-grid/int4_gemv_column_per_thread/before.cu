// kernel: int4_gemv_column_per_thread/before/cuda
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kColumns = 256;
constexpr int kWordsPerGroup = 16;

__device__ float dot_word(int word, const __half* x) {
  float sum = 0.0f;
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    sum += static_cast<float>((word >> (4 * k) & 15) - 8) * __half2float(x[k]);
  }
  return sum;
}

// A thread for each output; a word holds eight weights of a column, the lowest bits first.
__global__ void __launch_bounds__(kColumns)
    multiply_columns(const int* __restrict__ packed, const __half* __restrict__ scales,
                     const __half* __restrict__ x, __half* __restrict__ y, int groups,
                     int columns) {
  const int column = blockIdx.x * kColumns + threadIdx.x;
  if (column >= columns) return;
  float total = 0.0f;
  for (int group = 0; group < groups; ++group) {
    float sum = 0.0f;
    for (int k = 0; k < kWordsPerGroup; ++k) {
      const std::int64_t row = static_cast<std::int64_t>(group) * kWordsPerGroup + k;
      sum += dot_word(packed[row * columns + column], x + 8 * row);
    }
    total += sum * __half2float(scales[static_cast<std::int64_t>(group) * columns + column]);
  }
  y[column] = __float2half(total);
}

}  // namespace

extern "C" int gemv_int4(const int* packed, const __half* scales, const __half* x, __half* y,
                         std::int64_t groups, std::int64_t columns, void* stream) {
  const auto blocks = static_cast<unsigned>((columns + kColumns - 1) / kColumns);
  multiply_columns<<<blocks, kColumns, 0, static_cast<cudaStream_t>(stream)>>>(
      packed, scales, x, y, static_cast<int>(groups), static_cast<int>(columns));
  return static_cast<int>(cudaGetLastError());
}
