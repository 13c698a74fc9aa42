// fix: tile-into-smem
// arch: sm_80 sm_90a sm_100a
// source: kernelkb-judgement
#include <cuda_runtime.h>

constexpr int kBlock = 256;

// The share of charge q (x, y, z and the amount w) in the potential at p; soft is positive.
__device__ float share(float3 p, float4 q, float soft) {
  const float x = q.x - p.x, y = q.y - p.y, z = q.z - p.z;
  return q.w * rsqrtf(fmaf(x, x, fmaf(y, y, fmaf(z, z, soft))));
}

namespace before {

__global__ void potentials(const float3* __restrict__ points,
                           const float4* __restrict__ charges, float* __restrict__ out, int n,
                           int charge_count, float soft) {
  const int i = blockIdx.x * kBlock + threadIdx.x;
  if (i >= n) return;
  const float3 p = points[i];
  float sum = 0.0f;
  for (int j = 0; j < charge_count; ++j) {  // each warp reads all charges by itself
    sum += share(p, charges[j], soft);
  }
  out[i] = sum;
}

}  // namespace before

namespace after {

__global__ void potentials(const float3* __restrict__ points,
                           const float4* __restrict__ charges, float* __restrict__ out, int n,
                           int charge_count, float soft) {
  __shared__ float4 tile[kBlock];
  const int i = blockIdx.x * kBlock + threadIdx.x;
  const float3 p = points[min(i, n - 1)];  // every thread stays for the barriers
  float sum = 0.0f;
  for (int first = 0; first < charge_count; first += kBlock) {
    const int j = first + threadIdx.x;
    tile[threadIdx.x] = j < charge_count ? charges[j] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    __syncthreads();
#pragma unroll 8
    for (int t = 0; t < kBlock; ++t) sum += share(p, tile[t], soft);  // a charge of 0 adds 0
    __syncthreads();
  }
  if (i < n) out[i] = sum;
}

}  // namespace after
