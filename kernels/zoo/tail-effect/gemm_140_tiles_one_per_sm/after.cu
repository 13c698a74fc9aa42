// kernel: gemm_140_tiles_one_per_sm/after/cuda
// change: tile 256 x 112 -> 256 x 128, so that 126 blocks run in one wave
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kTileM = 256;
constexpr int kTileN = 128;
constexpr int kDepth = 16;
constexpr int kColumns = kTileN / 8;
constexpr int kThreads = kTileM / 8 * kColumns;

__global__ void __launch_bounds__(kThreads)
    multiply(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int k,
             int m, int n) {
  __shared__ __align__(16) float left[kDepth][kTileM];
  __shared__ __align__(16) float right[kDepth][kTileN];
  const int row0 = blockIdx.y * kTileM, col0 = blockIdx.x * kTileN;
  const int tx = threadIdx.x % kColumns * 4, ty = threadIdx.x / kColumns * 4;
  float sum[8][8] = {};
  for (int first = 0; first < k; first += kDepth) {
    for (int e = threadIdx.x; e < kDepth * kTileM; e += kThreads) {
      const int d = e / kTileM, r = e % kTileM;
      const bool inside = first + d < k && row0 + r < m;
      left[d][r] = inside ? a[static_cast<std::int64_t>(first + d) * m + row0 + r] : 0.f;
    }
    for (int e = threadIdx.x; e < kDepth * kTileN; e += kThreads) {
      const int d = e / kTileN, r = e % kTileN;
      const bool inside = first + d < k && col0 + r < n;
      right[d][r] = inside ? b[static_cast<std::int64_t>(first + d) * n + col0 + r] : 0.f;
    }
    __syncthreads();
#pragma unroll
    for (int d = 0; d < kDepth; ++d) {
      float l[8], r[8];
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        *reinterpret_cast<float4*>(l + 4 * h) =
            *reinterpret_cast<const float4*>(&left[d][ty + h * kTileM / 2]);
        *reinterpret_cast<float4*>(r + 4 * h) =
            *reinterpret_cast<const float4*>(&right[d][tx + h * kTileN / 2]);
      }
#pragma unroll
      for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int j = 0; j < 8; ++j) sum[i][j] = fmaf(l[i], r[j], sum[i][j]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const int row = row0 + ty + i % 4 + i / 4 * (kTileM / 2);
      const int col = col0 + tx + j % 4 + j / 4 * (kTileN / 2);
      if (row < m && col < n) c[static_cast<std::int64_t>(row) * n + col] = sum[i][j];
    }
  }
}

}  // namespace

extern "C" int gemm_tn(const float* a, const float* b, float* c, std::int64_t k, std::int64_t m,
                       std::int64_t n, void* stream) {
  const dim3 grid(static_cast<unsigned>((n + kTileN - 1) / kTileN),
                  static_cast<unsigned>((m + kTileM - 1) / kTileM));
  multiply<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      a, b, c, static_cast<int>(k), static_cast<int>(m), static_cast<int>(n));
  return static_cast<int>(cudaGetLastError());
}
