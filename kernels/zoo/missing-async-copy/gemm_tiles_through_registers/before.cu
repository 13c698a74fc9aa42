// kernel: gemm_tiles_through_registers/before/cuda
// flaw: each step waits for its tiles to arrive before it computes, with eight warps on an SM
#include <cuda_runtime.h>

#include <cstdint>

namespace {
constexpr int kTileM = 256;
constexpr int kTileN = 128;
constexpr int kDepth = 8;
constexpr int kThreads = 256;

struct Tiles {
  float left[kDepth][kTileM];
  float right[kDepth][kTileN];
};

__device__ void copy_tiles(Tiles& tiles, const float* a, const float* b, int first, int m, int n) {
#pragma unroll
  for (int e = threadIdx.x * 4; e < kDepth * kTileM; e += kThreads * 4) {
    const int d = e / kTileM, r = e % kTileM;
    const float* source = a + static_cast<std::int64_t>(first + d) * m + r;
    *reinterpret_cast<float4*>(&tiles.left[d][r]) = *reinterpret_cast<const float4*>(source);
  }
  const int d = threadIdx.x * 4 / kTileN, r = threadIdx.x * 4 % kTileN;
  const float* source = b + static_cast<std::int64_t>(first + d) * n + r;
  *reinterpret_cast<float4*>(&tiles.right[d][r]) = *reinterpret_cast<const float4*>(source);
}

__global__ void __launch_bounds__(kThreads, 1)
    multiply(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int k,
             int m, int n) {
  __shared__ __align__(16) Tiles tiles;
  const int row0 = blockIdx.y * kTileM, col0 = blockIdx.x * kTileN;
  const int tx = threadIdx.x % 16 * 4, ty = threadIdx.x / 16 * 4;
  float sum[16][8] = {};
  for (int first = 0; first < k; first += kDepth) {
    copy_tiles(tiles, a + row0, b + col0, first, m, n);
    __syncthreads();
#pragma unroll
    for (int d = 0; d < kDepth; ++d) {
      float l[16], r[8];
#pragma unroll
      for (int h = 0; h < 4; ++h) {
        *reinterpret_cast<float4*>(l + 4 * h) =
            *reinterpret_cast<const float4*>(&tiles.left[d][ty + h * 64]);
      }
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        *reinterpret_cast<float4*>(r + 4 * h) =
            *reinterpret_cast<const float4*>(&tiles.right[d][tx + h * 64]);
      }
#pragma unroll
      for (int i = 0; i < 16; ++i) {
#pragma unroll
        for (int j = 0; j < 8; ++j) sum[i][j] = fmaf(l[i], r[j], sum[i][j]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    const std::int64_t row = row0 + ty + i % 4 + i / 4 * 64;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      *reinterpret_cast<float4*>(c + row * n + col0 + tx + h * 64) =
          make_float4(sum[i][4 * h], sum[i][4 * h + 1], sum[i][4 * h + 2], sum[i][4 * h + 3]);
    }
  }
}

}  // namespace

extern "C" int gemm_tn(const float* a, const float* b, float* c, std::int64_t k, std::int64_t m,
                       std::int64_t n, void* stream) {
  const dim3 grid(static_cast<unsigned>(n / kTileN), static_cast<unsigned>(m / kTileM));
  multiply<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      a, b, c, static_cast<int>(k), static_cast<int>(m), static_cast<int>(n));
  return static_cast<int>(cudaGetLastError());
}
