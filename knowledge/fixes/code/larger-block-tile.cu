// fix: larger-block-tile
// arch: sm_80 sm_90a sm_100a
// source: kernelkb-judgement
#include <cuda_runtime.h>

// C = A B, row-major, by 16 x 16 threads; m and n are multiples of kTile, k of 8.
// A tile of M x N loads (M + N) k values for M N k multiply-adds: traffic ~ 1/M + 1/N.
template <int kTile>
__device__ void multiply_tile(const float* a, const float* b, float* c, int n, int k) {
  constexpr int kDepth = 8, kOwn = kTile / 16;
  __shared__ float ta[kDepth][kTile + 4], tb[kDepth][kTile];  // + 4: no bank conflicts
  const int tx = threadIdx.x, ty = threadIdx.y, id = 16 * ty + tx;
  a += static_cast<size_t>(blockIdx.y) * kTile * k;
  b += blockIdx.x * kTile;
  c += static_cast<size_t>(blockIdx.y) * kTile * n + blockIdx.x * kTile;
  float sum[kOwn][kOwn] = {};
  for (int first = 0; first < k; first += kDepth) {
    for (int i = id; i < kTile * kDepth; i += 256) {
      ta[i % kDepth][i / kDepth] = a[static_cast<size_t>(i / kDepth) * k + first + i % kDepth];
      tb[i / kTile][i % kTile] = b[static_cast<size_t>(first + i / kTile) * n + i % kTile];
    }
    __syncthreads();
#pragma unroll
    for (int p = 0; p < kDepth; ++p) {
      float left[kOwn], right[kOwn];
#pragma unroll
      for (int i = 0; i < kOwn; ++i) left[i] = ta[p][ty + 16 * i];
#pragma unroll
      for (int j = 0; j < kOwn; ++j) right[j] = tb[p][tx + 16 * j];
#pragma unroll
      for (int i = 0; i < kOwn; ++i)
#pragma unroll
        for (int j = 0; j < kOwn; ++j) sum[i][j] = fmaf(left[i], right[j], sum[i][j]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kOwn; ++i)
#pragma unroll
    for (int j = 0; j < kOwn; ++j)
      c[static_cast<size_t>(ty + 16 * i) * n + tx + 16 * j] = sum[i][j];
}

namespace before {

__global__ void __launch_bounds__(256)
    multiply(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c,
             int n, int k) {
  multiply_tile<64>(a, b, c, n, k);  // grid (n / 64, m / 64), 16 sums per thread
}

}  // namespace before

namespace after {

__global__ void __launch_bounds__(256)
    multiply(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c,
             int n, int k) {
  multiply_tile<128>(a, b, c, n, k);  // grid (n / 128, m / 128), 64 sums per thread
}

}  // namespace after
