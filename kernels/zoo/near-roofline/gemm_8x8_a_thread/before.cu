// kernel: gemm_8x8_a_thread/before/cuda
// form: 8 x 8 outputs a thread and double-buffered tiles
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kTile = 128;
constexpr int kDepth = 8;
constexpr int kThreads = 256;
constexpr int kUnroll = 4;
constexpr int kLoads = kDepth * kTile / 4 / kThreads;  // float4 of each operand for each thread

// m and n are multiples of 128, k of 8.
__global__ void __launch_bounds__(kThreads, 2)
    multiply_tiles(const float* __restrict__ a, const float* __restrict__ b,
                   float* __restrict__ c, int k, int m, int n) {
  __shared__ float4 a_tile[2][kDepth][kTile / 4];
  __shared__ float4 b_tile[2][kDepth][kTile / 4];
  const int column4 = threadIdx.x % 32, depth_row = threadIdx.x / 32;
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  const float* a_from = a + static_cast<std::int64_t>(depth_row) * m + blockIdx.y * kTile;
  const float* b_from = b + static_cast<std::int64_t>(depth_row) * n + blockIdx.x * kTile;
  float4 next_a[kLoads], next_b[kLoads];
  const auto fetch = [&](int start) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const std::int64_t step = start + i * (kThreads / 32);
      next_a[i] = reinterpret_cast<const float4*>(a_from + step * m)[column4];
      next_b[i] = reinterpret_cast<const float4*>(b_from + step * n)[column4];
    }
  };
  const auto store = [&](int stage) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      a_tile[stage][depth_row + i * (kThreads / 32)][column4] = next_a[i];
      b_tile[stage][depth_row + i * (kThreads / 32)][column4] = next_b[i];
    }
  };
  float sum[8][8] = {};
  fetch(0);
  store(0);
  __syncthreads();
  int stage = 0;
  for (int start = 0; start < k; start += kDepth) {
    const bool has_next = start + kDepth < k;
    if (has_next) fetch(start + kDepth);
#pragma unroll kUnroll
    for (int p = 0; p < kDepth; ++p) {
      const float4 a_low = a_tile[stage][p][ty], a_high = a_tile[stage][p][ty + 16];
      const float4 b_low = b_tile[stage][p][tx], b_high = b_tile[stage][p][tx + 16];
      const float left[8] = {a_low.x,  a_low.y,  a_low.z,  a_low.w,
                             a_high.x, a_high.y, a_high.z, a_high.w};
      const float right[8] = {b_low.x,  b_low.y,  b_low.z,  b_low.w,
                              b_high.x, b_high.y, b_high.z, b_high.w};
#pragma unroll
      for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int j = 0; j < 8; ++j) sum[i][j] += left[i] * right[j];
      }
    }
    stage ^= 1;
    if (has_next) store(stage);
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int row = blockIdx.y * kTile + ty * 4 + i % 4 + i / 4 * 64;
    float4* to = reinterpret_cast<float4*>(c + static_cast<std::int64_t>(row) * n) +
                 blockIdx.x * (kTile / 4) + tx;
    to[0] = make_float4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]);
    to[16] = make_float4(sum[i][4], sum[i][5], sum[i][6], sum[i][7]);
  }
}

}  // namespace

extern "C" int transposed_product(const float* a, const float* b, float* c, std::int64_t k,
                                  std::int64_t m, std::int64_t n, void* stream) {
  const dim3 grid(n / kTile, m / kTile);
  multiply_tiles<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      a, b, c, static_cast<int>(k), static_cast<int>(m), static_cast<int>(n));
  return static_cast<int>(cudaGetLastError());
}
