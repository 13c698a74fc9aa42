// fix: reduce-precision
// arch: sm_80 sm_90a sm_100a
// source: kernelkb-derivation
#include <cuda_bf16.h>
#include <cuda_runtime.h>

__device__ float warp_sum(float v) {
#pragma unroll
  for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(~0u, v, d);
  return v;
}

// One block of 32 threads per row.
namespace before {

__global__ void row_norms(const float* __restrict__ x, float* __restrict__ out, int cols) {
  const float* row = x + static_cast<size_t>(blockIdx.x) * cols;
  float sum = 0.0f;
  for (int c = threadIdx.x; c < cols; c += 32) sum = fmaf(row[c], row[c], sum);
  sum = warp_sum(sum);
  if (threadIdx.x == 0) out[blockIdx.x] = sqrtf(sum);
}

}  // namespace before

namespace after {

// Half the bytes; only the storage is bf16, the sum stays in fp32. cols is even.
__global__ void row_norms(const __nv_bfloat16* __restrict__ x, float* __restrict__ out,
                          int cols) {
  const __nv_bfloat16* row = x + static_cast<size_t>(blockIdx.x) * cols;
  const __nv_bfloat162* pairs = reinterpret_cast<const __nv_bfloat162*>(row);
  float sum = 0.0f;
  for (int c = threadIdx.x; c < cols / 2; c += 32) {
    const float2 v = __bfloat1622float2(pairs[c]);
    sum = fmaf(v.x, v.x, fmaf(v.y, v.y, sum));
  }
  sum = warp_sum(sum);
  if (threadIdx.x == 0) out[blockIdx.x] = sqrtf(sum);
}

}  // namespace after
