// kernel: gemv_two_bit_codebook/after/cuda
// change: three selects among 4 registers for each weight
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kRows = 4;
constexpr int kCodes = 16;

// A warp has kRows rows; rows is a multiple of kRows.
__global__ void __launch_bounds__(kThreads)
    multiply_rows(const unsigned* __restrict__ codes, const float4* __restrict__ codebook,
                  const float4* __restrict__ x, float* __restrict__ y, int rows, int words) {
  const int lane = threadIdx.x % 32;
  const int first = (blockIdx.x * kThreads + threadIdx.x) / 32 * kRows;
  if (first >= rows) return;
  float book[kRows][4];
  float sum[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const float4 entry = codebook[first + r];
    book[r][0] = entry.x;
    book[r][1] = entry.y;
    book[r][2] = entry.z;
    book[r][3] = entry.w;
    sum[r] = 0.0f;
  }
  for (int w = lane; w < words; w += 32) {
    float4 in[kCodes / 4];
#pragma unroll
    for (int k = 0; k < kCodes / 4; ++k) in[k] = x[w * (kCodes / 4) + k];
    const float* values = &in[0].x;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const unsigned packed = codes[static_cast<std::int64_t>(first + r) * words + w];
#pragma unroll
      for (int k = 0; k < kCodes; ++k) {
        const unsigned code = packed >> (2 * k) & 3u;
        const float low = code & 1u ? book[r][1] : book[r][0];
        const float high = code & 1u ? book[r][3] : book[r][2];
        const float weight = code & 2u ? high : low;
        sum[r] += weight * values[k];
      }
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    for (int offset = 16; offset > 0; offset /= 2) {
      sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], offset);
    }
    if (lane == 0) y[first + r] = sum[r];
  }
}

}  // namespace

extern "C" int multiply(const int* codes, const float* codebook, const float* x, float* y,
                        std::int64_t rows, std::int64_t words, void* stream) {
  const std::int64_t warps = rows / kRows;
  const int blocks = static_cast<int>((warps * 32 + kThreads - 1) / kThreads);
  multiply_rows<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      reinterpret_cast<const unsigned*>(codes), reinterpret_cast<const float4*>(codebook),
      reinterpret_cast<const float4*>(x), y, static_cast<int>(rows), static_cast<int>(words));
  return static_cast<int>(cudaGetLastError());
}
