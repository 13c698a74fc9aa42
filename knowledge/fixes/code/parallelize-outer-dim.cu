// fix: parallelize-outer-dim
// arch: sm_80 sm_90a sm_100a
// source: nsight-compute-rules
#include <cuda_runtime.h>

// y[h][i] = gain[h] * x[h][i]
namespace before {

// Grid of n / 256 blocks, rounded up: each walks all heads.
__global__ void scale_heads(const float* __restrict__ x, const float* __restrict__ gain,
                            float* __restrict__ y, int heads, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  for (int h = 0; h < heads; ++h) {
    const size_t at = static_cast<size_t>(h) * n + i;
    y[at] = gain[h] * x[at];
  }
}

}  // namespace before

namespace after {

// Grid (n / 256 rounded up, heads): as many times the blocks as there are heads (<= 65535).
__global__ void scale_heads(const float* __restrict__ x, const float* __restrict__ gain,
                            float* __restrict__ y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, h = blockIdx.y;
  if (i >= n) return;
  const size_t at = static_cast<size_t>(h) * n + i;
  y[at] = gain[h] * x[at];
}

}  // namespace after
