// fix: accumulate-in-registers
// arch: sm_80 sm_90a sm_100a
// source: kernelkb-judgement
#include <cuda_runtime.h>

constexpr int kBlock = 256;  // one block per row

// The sum over the block, for thread 0; eight levels with a barrier each.
__device__ float block_sum(float v, float* tree) {
  tree[threadIdx.x] = v;
  __syncthreads();
  for (int d = kBlock / 2; d > 0; d /= 2) {
    if (threadIdx.x < d) tree[threadIdx.x] += tree[threadIdx.x + d];
    __syncthreads();
  }
  return tree[0];
}

namespace before {

// One element per thread, then the tree: cols / 256 trees a row.
__global__ void row_sums(const float* __restrict__ x, float* __restrict__ out, int cols) {
  __shared__ float tree[kBlock];
  float total = 0.0f;
  for (int first = 0; first < cols; first += kBlock) {
    const int c = first + threadIdx.x;
    total += block_sum(c < cols ? x[static_cast<size_t>(blockIdx.x) * cols + c] : 0.0f, tree);
    __syncthreads();  // tree[0] was read
  }
  if (threadIdx.x == 0) out[blockIdx.x] = total;
}

}  // namespace before

namespace after {

// All elements of a thread in a register, then one tree a row.
__global__ void row_sums(const float* __restrict__ x, float* __restrict__ out, int cols) {
  __shared__ float tree[kBlock];
  float own = 0.0f;
  for (int c = threadIdx.x; c < cols; c += kBlock) {
    own += x[static_cast<size_t>(blockIdx.x) * cols + c];
  }
  const float total = block_sum(own, tree);
  if (threadIdx.x == 0) out[blockIdx.x] = total;
}

}  // namespace after
