// fix: float-literals
// arch: sm_80 sm_90a sm_100a
// source: kernelkb-toolchain-2026-11
#include <cuda_runtime.h>

namespace before {

// The literals are doubles, so product, exponential, sum and division are, too.
__global__ void quick_gelu(const float* __restrict__ x, float* __restrict__ y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] / (1.0 + exp(-1.702 * x[i]));
}

}  // namespace before

namespace after {

// Equal to the rounding of single precision.
__global__ void quick_gelu(const float* __restrict__ x, float* __restrict__ y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] / (1.0f + expf(-1.702f * x[i]));
}

}  // namespace after
