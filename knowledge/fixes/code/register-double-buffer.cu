// fix: register-double-buffer
// arch: sm_80 sm_90a sm_100a
// source: kernelkb-judgement
#include <cuda_runtime.h>

constexpr int kDepth = 32, kTile = 64;

// c[m][n] = sum over p < kDepth of at[p][m] * b[p][n]; m and n are multiples of 64.
// Grid (n / 64, m / 64), 16 x 16 threads, 4 x 4 outputs each.
__device__ void load_tiles(float4 (*ta)[16], float4 (*tb)[16], const float* at, const float* b,
                           int m, int n) {
  for (int p = threadIdx.y; p < kDepth; p += 16) {
    ta[p][threadIdx.x] = reinterpret_cast<const float4*>(
        at + static_cast<size_t>(p) * m + blockIdx.y * kTile)[threadIdx.x];
    tb[p][threadIdx.x] = reinterpret_cast<const float4*>(
        b + static_cast<size_t>(p) * n + blockIdx.x * kTile)[threadIdx.x];
  }
  __syncthreads();
}

__device__ void multiply_add(float4& sum, float a, float4 b) {
  sum = make_float4(fmaf(a, b.x, sum.x), fmaf(a, b.y, sum.y), fmaf(a, b.z, sum.z),
                    fmaf(a, b.w, sum.w));
}

__device__ void outer_product(float4 (&sum)[4], float4 a, float4 b) {
  multiply_add(sum[0], a.x, b);
  multiply_add(sum[1], a.y, b);
  multiply_add(sum[2], a.z, b);
  multiply_add(sum[3], a.w, b);
}

__device__ void store(float* c, const float4 (&sum)[4], int n) {
  c += static_cast<size_t>(blockIdx.y * kTile + threadIdx.y * 4) * n + blockIdx.x * kTile;
  for (int i = 0; i < 4; ++i) {
    reinterpret_cast<float4*>(c + static_cast<size_t>(i) * n)[threadIdx.x] = sum[i];
  }
}

namespace before {

__global__ void multiply(const float* __restrict__ at, const float* __restrict__ b,
                         float* __restrict__ c, int m, int n) {
  __shared__ float4 ta[kDepth][16], tb[kDepth][16];
  load_tiles(ta, tb, at, b, m, n);
  float4 sum[4] = {};
#pragma unroll 1
  for (int p = 0; p < kDepth; ++p) {
    const float4 left = ta[p][threadIdx.y], right = tb[p][threadIdx.x];
    outer_product(sum, left, right);  // waits for both loads
  }
  store(c, sum, n);
}

}  // namespace before

namespace after {

__global__ void multiply(const float* __restrict__ at, const float* __restrict__ b,
                         float* __restrict__ c, int m, int n) {
  __shared__ float4 ta[kDepth][16], tb[kDepth][16];
  load_tiles(ta, tb, at, b, m, n);
  float4 sum[4] = {};
  float4 left[2] = {ta[0][threadIdx.y]}, right[2] = {tb[0][threadIdx.x]};
#pragma unroll 2
  for (int p = 0; p < kDepth; ++p) {
    const int next = (p + 1) % kDepth;  // the last load is not used
    left[(p + 1) % 2] = ta[next][threadIdx.y];
    right[(p + 1) % 2] = tb[next][threadIdx.x];
    outer_product(sum, left[p % 2], right[p % 2]);  // operands loaded one step ago
  }
  store(c, sum, n);
}

}  // namespace after
