// fix: register-tiling
// arch: sm_80 sm_90a sm_100a
// source: kernelkb-judgement
#include <cuda_runtime.h>

// C = A B, row-major; m and n are multiples of 64, k of 16.
namespace before {

// Grid (n / 16, m / 16), 16 x 16 threads: 2 shared loads for each multiply-add.
__global__ void multiply(const float* __restrict__ a, const float* __restrict__ b,
                         float* __restrict__ c, int n, int k) {
  __shared__ float ta[16][16], tb[16][16];
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
  float sum = 0.0f;
  for (int p = 0; p < k; p += 16) {
    ta[ty][tx] = a[static_cast<size_t>(row) * k + p + tx];
    tb[ty][tx] = b[static_cast<size_t>(p + ty) * n + col];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 16; ++i) sum = fmaf(ta[ty][i], tb[i][tx], sum);
    __syncthreads();
  }
  c[static_cast<size_t>(row) * n + col] = sum;
}

}  // namespace before

namespace after {

// Grid (n / 64, m / 64), 16 x 16 threads: 8 shared loads for 16 multiply-adds.
__global__ void multiply(const float* __restrict__ a, const float* __restrict__ b,
                         float* __restrict__ c, int n, int k) {
  __shared__ float ta[64][17], tb[16][64];
  const int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 64, col = blockIdx.x * 64;
  float sum[4][4] = {};
  for (int p = 0; p < k; p += 16) {
#pragma unroll
    for (int s = 0; s < 64; s += 16) {
      ta[ty + s][tx] = a[static_cast<size_t>(row + ty + s) * k + p + tx];
      tb[ty][tx + s] = b[static_cast<size_t>(p + ty) * n + col + tx + s];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 16; ++i)
#pragma unroll
      for (int u = 0; u < 16; ++u) {
        const int r = u / 4, s = u % 4;  // four loads from ta, four from tb
        sum[r][s] = fmaf(ta[ty + 16 * r][i], tb[i][tx + 16 * s], sum[r][s]);
      }
    __syncthreads();
  }
#pragma unroll
  for (int u = 0; u < 16; ++u) {
    const int r = u / 4, s = u % 4;
    c[static_cast<size_t>(row + ty + 16 * r) * n + col + tx + 16 * s] = sum[r][s];
  }
}

}  // namespace after
