// fix: constant-index-local
// arch: sm_80 sm_90a sm_100a
// source: kernelkb-toolchain-2026-11
#include <cuda_runtime.h>

constexpr int kMost = 16;  // 1 <= count <= 16 values per thread, value k at x[k * n + i]

namespace before {

// The trip count is unknown, so a[] is indexed at run time and lies in local memory.
__global__ void variances(const float* __restrict__ x, float* __restrict__ out, int count,
                          int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float a[kMost], mean = 0.0f, sum = 0.0f;
  for (int k = 0; k < count; ++k) {
    a[k] = x[static_cast<size_t>(k) * n + i];
    mean += a[k] / count;
  }
  for (int k = 0; k < count; ++k) sum = fmaf(a[k] - mean, a[k] - mean, sum);
  out[i] = sum / count;
}

}  // namespace before

namespace after {

// Sixteen unrolled steps under a predicate: every index is a constant, a[] is registers.
__global__ void variances(const float* __restrict__ x, float* __restrict__ out, int count,
                          int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float a[kMost], mean = 0.0f, sum = 0.0f;
#pragma unroll
  for (int k = 0; k < kMost; ++k) {
    a[k] = k < count ? x[static_cast<size_t>(k) * n + i] : 0.0f;
    mean += a[k] / count;
  }
#pragma unroll
  for (int k = 0; k < kMost; ++k) {
    if (k < count) sum = fmaf(a[k] - mean, a[k] - mean, sum);
  }
  out[i] = sum / count;
}

}  // namespace after
