// fix: skip-masked-tiles
// arch: sm_80 sm_90a sm_100a
// source: kernelkb-judgement
#include <cuda_runtime.h>

constexpr int kTile = 64;  // blocks of 64 threads, one query each; n is a multiple of 64

namespace before {

// All n / 64 tiles of keys run, and the causal mask drops about half of the products.
__global__ void causal_sums(const float* __restrict__ q, const float* __restrict__ k,
                            const float* __restrict__ v, float* __restrict__ out, int n) {
  const int query = blockIdx.x * kTile + threadIdx.x;
  const float own = q[query];
  float sum = 0.0f;
  for (int tile = 0; tile < n / kTile; ++tile) {
    for (int key = tile * kTile; key < (tile + 1) * kTile; ++key) {
      if (key <= query) sum = fmaf(own * k[key], v[key], sum);
    }
  }
  out[query] = sum;
}

}  // namespace before

namespace after {

// Tiles below the diagonal need no mask, the one on it does, and those above never run.
__global__ void causal_sums(const float* __restrict__ q, const float* __restrict__ k,
                            const float* __restrict__ v, float* __restrict__ out, int n) {
  const int diagonal = blockIdx.x * kTile, query = diagonal + threadIdx.x;
  const float own = q[query];
  float sum = 0.0f;
  for (int key = 0; key < diagonal; ++key) sum = fmaf(own * k[key], v[key], sum);
  for (int key = diagonal; key < diagonal + kTile; ++key) {
    if (key <= query) sum = fmaf(own * k[key], v[key], sum);
  }
  out[query] = sum;
}

}  // namespace after
