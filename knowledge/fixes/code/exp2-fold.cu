// fix: exp2-fold
// arch: sm_80 sm_90a sm_100a
// source: kernelkb-judgement
#include <cuda_runtime.h>

__device__ float warp_max(float v) {
#pragma unroll
  for (int d = 16; d > 0; d /= 2) v = fmaxf(v, __shfl_xor_sync(~0u, v, d));
  return v;
}

__device__ float warp_sum(float v) {
#pragma unroll
  for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(~0u, v, d);
  return v;
}

__device__ float row_max(const float* row, int cols) {
  float most = -INFINITY;
  for (int c = threadIdx.x; c < cols; c += 32) most = fmaxf(most, row[c]);
  return warp_max(most);
}

// The logarithm of the sum of exp(scale * s) for each row; blocks of 32 threads, a row each.
// scale is positive, and every row has a finite maximum.
namespace before {

// Per element a subtraction, a product, and the product with log2(e) inside expf.
__global__ void log_sum_exp(const float* __restrict__ s, float* __restrict__ out, float scale,
                            int cols) {
  const float* row = s + static_cast<size_t>(blockIdx.x) * cols;
  const float most = row_max(row, cols);
  float sum = 0.0f;
  for (int c = threadIdx.x; c < cols; c += 32) sum += expf((row[c] - most) * scale);
  sum = warp_sum(sum);
  if (threadIdx.x == 0) out[blockIdx.x] = fmaf(most, scale, logf(sum));
}

}  // namespace before

namespace after {

// 2^x by one MUFU, relative error near 2^-22; results below 2^-126 become 0.
__device__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// factor = scale * log2(e) goes into the maximum as well: one FFMA, one ex2 per element.
// The fused form errs by up to |most * factor| * 2^-24 in the exponent.
__global__ void log_sum_exp(const float* __restrict__ s, float* __restrict__ out, float scale,
                            int cols) {
  const float* row = s + static_cast<size_t>(blockIdx.x) * cols;
  const float most = row_max(row, cols);
  const float factor = scale * 1.44269504f, shift = -most * factor;
  float sum = 0.0f;
  for (int c = threadIdx.x; c < cols; c += 32) {
    sum += exp2_approx(fmaf(row[c], factor, shift));
  }
  sum = warp_sum(sum);
  if (threadIdx.x == 0) out[blockIdx.x] = fmaf(most, scale, logf(sum));
}

}  // namespace after
