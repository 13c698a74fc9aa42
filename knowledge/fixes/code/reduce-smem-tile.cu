// fix: reduce-smem-tile
// arch: sm_80 sm_90a sm_100a
// source: kernelkb-judgement
#include <cuda_runtime.h>

constexpr int kBlock = 128;  // one point per thread; n and m are multiples of 128 and 2048

__device__ float square_distance(float4 p, float4 q) {
  const float x = p.x - q.x, y = p.y - q.y, z = p.z - q.z;
  return fmaf(x, x, fmaf(y, y, z * z));
}

namespace before {

// 32 KB for four warps: six blocks on 228 KB are 24 of 64 warps. The points of a block meet
// each candidate once, whatever the size of the tile, so the large one saves no traffic.
__global__ void nearest(const float4* __restrict__ points, const float4* __restrict__ others,
                        float* __restrict__ out, int m) {
  constexpr int kTile = 2048;
  __shared__ float4 tile[kTile];
  const float4 own = points[blockIdx.x * kBlock + threadIdx.x];
  float least = INFINITY;
  for (int first = 0; first < m; first += kTile) {
    for (int j = threadIdx.x; j < kTile; j += kBlock) tile[j] = others[first + j];
    __syncthreads();
    for (int j = 0; j < kTile; ++j) least = fminf(least, square_distance(own, tile[j]));
    __syncthreads();
  }
  out[blockIdx.x * kBlock + threadIdx.x] = least;
}

}  // namespace before

namespace after {

// 4 KB: shared memory no longer limits the blocks.
__global__ void nearest(const float4* __restrict__ points, const float4* __restrict__ others,
                        float* __restrict__ out, int m) {
  constexpr int kTile = 256;
  __shared__ float4 tile[kTile];
  const float4 own = points[blockIdx.x * kBlock + threadIdx.x];
  float least = INFINITY;
  for (int first = 0; first < m; first += kTile) {
    for (int j = threadIdx.x; j < kTile; j += kBlock) tile[j] = others[first + j];
    __syncthreads();
    for (int j = 0; j < kTile; ++j) least = fminf(least, square_distance(own, tile[j]));
    __syncthreads();
  }
  out[blockIdx.x * kBlock + threadIdx.x] = least;
}

}  // namespace after
