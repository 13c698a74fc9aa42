// fix: limit-unroll
// arch: sm_80 sm_90a sm_100a
// source: gpa
#include <cuda_runtime.h>

constexpr int kTaps = 128;

namespace before {

// 128 copies of the body: hoisted loads take registers, and the code fills the cache.
__global__ void weigh(const float* __restrict__ x, const float* __restrict__ w,
                      float* __restrict__ out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float sum = 0.0f;
#pragma unroll
  for (int t = 0; t < kTaps; ++t) sum = fmaf(w[t], x[static_cast<size_t>(t) * n + i], sum);
  out[i] = sum;
}

}  // namespace before

namespace after {

// Four copies still overlap four loads.
__global__ void weigh(const float* __restrict__ x, const float* __restrict__ w,
                      float* __restrict__ out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float sum = 0.0f;
#pragma unroll 4
  for (int t = 0; t < kTaps; ++t) sum = fmaf(w[t], x[static_cast<size_t>(t) * n + i], sum);
  out[i] = sum;
}

}  // namespace after
