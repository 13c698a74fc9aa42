// fix: fast-math
// arch: sm_80 sm_90a sm_100a
// source: kernelkb-judgement
#include <cuda_runtime.h>

namespace before {

__global__ void sigmoid(const float* __restrict__ x, float* __restrict__ y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 1.0f / (1.0f + expf(-x[i]));  // range reduction, IEEE division
}

}  // namespace before

namespace after {

// Absolute error near 1e-7; where the divisor passes 2^126 the quotient is 0.
__global__ void sigmoid(const float* __restrict__ x, float* __restrict__ y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = __fdividef(1.0f, 1.0f + __expf(-x[i]));  // one ex2, one rcp
}

}  // namespace after
