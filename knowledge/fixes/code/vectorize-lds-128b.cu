// fix: vectorize-lds-128b
// arch: sm_80 sm_90a sm_100a
// source: kernelkb-judgement
#include <cuda_runtime.h>

// c = a b, b has 128 columns; 32 x 8 threads make 8 rows. Rows divide by 8, k by kDepth.
constexpr int kDepth = 32, kCols = 128;

__device__ void load_tile(float (*tile)[kCols], const float* b) {
  for (int i = threadIdx.y * 32 + threadIdx.x; i < kDepth * kCols / 4; i += 256) {
    reinterpret_cast<float4*>(&tile[0][0])[i] = reinterpret_cast<const float4*>(b)[i];
  }
}

namespace before {

// Lane x owns columns x, x + 32, x + 64 and x + 96: four LDS.32 for four multiply-adds.
__global__ void multiply(const float* __restrict__ a, const float* __restrict__ b,
                         float* __restrict__ c, int k) {
  __shared__ __align__(16) float tile[kDepth][kCols];
  const int row = blockIdx.x * 8 + threadIdx.y, x = threadIdx.x;
  float sum[4] = {};
  for (int first = 0; first < k; first += kDepth) {
    load_tile(tile, b + static_cast<size_t>(first) * kCols);
    __syncthreads();
    for (int p = 0; p < kDepth; ++p) {
      const float left = a[static_cast<size_t>(row) * k + first + p];
#pragma unroll
      for (int j = 0; j < 4; ++j) sum[j] = fmaf(left, tile[p][x + 32 * j], sum[j]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int j = 0; j < 4; ++j) c[static_cast<size_t>(row) * kCols + x + 32 * j] = sum[j];
}

}  // namespace before

namespace after {

// Lane x owns columns 4 x to 4 x + 3: one LDS.128, and one store of 16 bytes.
__global__ void multiply(const float* __restrict__ a, const float* __restrict__ b,
                         float* __restrict__ c, int k) {
  __shared__ __align__(16) float tile[kDepth][kCols];
  const int row = blockIdx.x * 8 + threadIdx.y, x = threadIdx.x;
  float4 sum = {};
  for (int first = 0; first < k; first += kDepth) {
    load_tile(tile, b + static_cast<size_t>(first) * kCols);
    __syncthreads();
    for (int p = 0; p < kDepth; ++p) {
      const float left = a[static_cast<size_t>(row) * k + first + p];
      const float4 v = reinterpret_cast<const float4*>(tile[p])[x];
      sum = make_float4(fmaf(left, v.x, sum.x), fmaf(left, v.y, sum.y), fmaf(left, v.z, sum.z),
                        fmaf(left, v.w, sum.w));
    }
    __syncthreads();
  }
  reinterpret_cast<float4*>(c + static_cast<size_t>(row) * kCols)[x] = sum;
}

}  // namespace after
