// fix: warp-shuffle
// arch: sm_80 sm_90a sm_100a
// source: kernelkb-judgement
#include <cuda_runtime.h>

constexpr int kBlock = 256;  // one block per row of 256 elements

namespace before {

// Eight levels in shared memory, a barrier for each.
__global__ void row_max(const float* __restrict__ x, float* __restrict__ out) {
  __shared__ float tree[kBlock];
  tree[threadIdx.x] = x[static_cast<size_t>(blockIdx.x) * kBlock + threadIdx.x];
  __syncthreads();
  for (int d = kBlock / 2; d > 0; d /= 2) {
    if (threadIdx.x < d) tree[threadIdx.x] = fmaxf(tree[threadIdx.x], tree[threadIdx.x + d]);
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = tree[0];
}

}  // namespace before

namespace after {

__device__ float warp_max(float v, int width) {
#pragma unroll
  for (int d = width / 2; d > 0; d /= 2) v = fmaxf(v, __shfl_xor_sync(~0u, v, d));
  return v;
}

// Registers within a warp, shared memory and one barrier only between the eight warps.
__global__ void row_max(const float* __restrict__ x, float* __restrict__ out) {
  constexpr int kWarps = kBlock / 32;
  __shared__ float partial[kWarps];
  float v = warp_max(x[static_cast<size_t>(blockIdx.x) * kBlock + threadIdx.x], 32);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x < 32) {
    v = warp_max(partial[threadIdx.x % kWarps], kWarps);
    if (threadIdx.x == 0) out[blockIdx.x] = v;
  }
}

}  // namespace after
