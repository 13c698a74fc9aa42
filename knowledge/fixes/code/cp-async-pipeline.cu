// fix: cp-async-pipeline
// arch: sm_80 sm_90a sm_100a
// source: nsight-compute-rules
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

constexpr int kBlock = 128, kStages = 3;

__device__ float pair_term(float4 p, float4 q) {
  const float x = q.x - p.x, y = q.y - p.y, z = q.z - p.z;
  return q.w * rsqrtf(fmaf(x, x, fmaf(y, y, fmaf(z, z, 1e-6f))));
}

// Blocks of kBlock threads; n, the number of particles, is a multiple of kBlock.
namespace before {

__global__ void potentials(const float4* __restrict__ p, float* __restrict__ out, int n) {
  __shared__ float4 tile[kBlock];
  const float4 own = p[blockIdx.x * kBlock + threadIdx.x];
  float sum = 0.0f;
  for (int t = 0; t < n / kBlock; ++t) {
    tile[threadIdx.x] = p[t * kBlock + threadIdx.x];  // waits for the load, then stores
    __syncthreads();
    for (int j = 0; j < kBlock; ++j) sum += pair_term(own, tile[j]);
    __syncthreads();
  }
  out[blockIdx.x * kBlock + threadIdx.x] = sum;
}

}  // namespace before

namespace after {

__global__ void potentials(const float4* __restrict__ p, float* __restrict__ out, int n) {
  __shared__ float4 ring[kStages][kBlock];
  const float4 own = p[blockIdx.x * kBlock + threadIdx.x];
  const int tiles = n / kBlock;
  auto fetch = [&](int t) {
    const int own = threadIdx.x;
    if (t < tiles) __pipeline_memcpy_async(&ring[t % kStages][own], &p[t * kBlock + own], 16);
    __pipeline_commit();  // an empty group at the end keeps the count of groups right
  };
  for (int t = 0; t < kStages - 1; ++t) fetch(t);
  float sum = 0.0f;
  for (int t = 0; t < tiles; ++t) {
    __pipeline_wait_prior(kStages - 2);  // this thread's part of tile t has arrived
    __syncthreads();                     // so have all parts, and tile t - 1 is free
    fetch(t + kStages - 1);
    for (int j = 0; j < kBlock; ++j) sum += pair_term(own, ring[t % kStages][j]);
  }
  out[blockIdx.x * kBlock + threadIdx.x] = sum;
}

}  // namespace after
