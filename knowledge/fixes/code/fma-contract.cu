// fix: fma-contract
// arch: sm_80 sm_90a sm_100a
// source: nsight-compute-rules
#include <cuda_runtime.h>

namespace before {

// The rounding intrinsics forbid fusion: three FMUL and three FADD.
__global__ void cubic(const float* __restrict__ x, float* __restrict__ y, float4 c, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = c.w;
  v = __fadd_rn(__fmul_rn(v, x[i]), c.z);
  v = __fadd_rn(__fmul_rn(v, x[i]), c.y);
  y[i] = __fadd_rn(__fmul_rn(v, x[i]), c.x);
}

}  // namespace before

namespace after {

// Three FFMA, each with one rounding instead of two: the last bit may differ.
__global__ void cubic(const float* __restrict__ x, float* __restrict__ y, float4 c, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = c.w;
  v = fmaf(v, x[i], c.z);
  v = fmaf(v, x[i], c.y);
  y[i] = fmaf(v, x[i], c.x);
}

}  // namespace after
