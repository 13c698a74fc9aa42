// fix: double-buffer-smem
// arch: sm_80 sm_90a sm_100a
// source: kernelkb-judgement
#include <cuda_runtime.h>

constexpr int kBlock = 256;

// out[i] = sum over j of |x[i] - y[j]|; blocks of 256 threads; m and n are multiples of 256.
namespace before {

// Two barriers per tile: one after the load, one before the next load overwrites it.
__global__ void distance_sums(const float* __restrict__ x, const float* __restrict__ y,
                              float* __restrict__ out, int m) {
  __shared__ float tile[kBlock];
  const int i = blockIdx.x * kBlock + threadIdx.x;
  const float own = x[i];
  float sum = 0.0f;
  for (int first = 0; first < m; first += kBlock) {
    tile[threadIdx.x] = y[first + threadIdx.x];
    __syncthreads();
    for (int j = 0; j < kBlock; ++j) sum += fabsf(own - tile[j]);
    __syncthreads();
  }
  out[i] = sum;
}

}  // namespace before

namespace after {

// One barrier per tile: the other buffer was read before the last barrier.
__global__ void distance_sums(const float* __restrict__ x, const float* __restrict__ y,
                              float* __restrict__ out, int m) {
  __shared__ float tile[2][kBlock];
  const int i = blockIdx.x * kBlock + threadIdx.x;
  const float own = x[i];
  float sum = 0.0f, next = y[threadIdx.x];
  for (int first = 0, b = 0; first < m; first += kBlock, b = 1 - b) {
    tile[b][threadIdx.x] = next;
    __syncthreads();
    if (first + kBlock < m) next = y[first + kBlock + threadIdx.x];  // in flight meanwhile
    for (int j = 0; j < kBlock; ++j) sum += fabsf(own - tile[b][j]);
  }
  out[i] = sum;
}

}  // namespace after
