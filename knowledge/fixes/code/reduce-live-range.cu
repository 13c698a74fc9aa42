// fix: reduce-live-range
// arch: sm_80 sm_90a sm_100a
// source: kernelkb-judgement
#include <cuda_runtime.h>

// Weighted distances of 64-dimensional points; dimension d of point i lies at [d * n + i].
constexpr int kDim = 64;

namespace before {

// The whole difference is live, since the largest one scales it: 64 registers and more.
__global__ void scaled_norms(const float* __restrict__ x, const float* __restrict__ y,
                             float* __restrict__ out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float diff[kDim], most = 1e-30f, sum = 0.0f;
#pragma unroll
  for (int d = 0; d < kDim; ++d) {
    diff[d] = x[static_cast<size_t>(d) * n + i] - y[static_cast<size_t>(d) * n + i];
    most = fmaxf(most, fabsf(diff[d]));
  }
#pragma unroll
  for (int d = 0; d < kDim; ++d) sum = fmaf(diff[d] / most, diff[d] / most, sum);
  out[i] = most * sqrtf(sum);
}

}  // namespace before

namespace after {

// Slices of 8 are live at a time; the sum is rescaled when a larger difference comes.
__global__ void scaled_norms(const float* __restrict__ x, const float* __restrict__ y,
                             float* __restrict__ out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float most = 1e-30f, sum = 0.0f;
#pragma unroll 1
  for (int first = 0; first < kDim; first += 8) {
    float diff[8], next = most;
#pragma unroll
    for (int d = 0; d < 8; ++d) {
      const size_t at = static_cast<size_t>(first + d) * n + i;
      diff[d] = x[at] - y[at];
      next = fmaxf(next, fabsf(diff[d]));
    }
    sum *= (most / next) * (most / next);
    most = next;
#pragma unroll
    for (int d = 0; d < 8; ++d) sum = fmaf(diff[d] / most, diff[d] / most, sum);
  }
  out[i] = most * sqrtf(sum);
}

}  // namespace after
