// fix: unroll-ilp
// arch: sm_80 sm_90a sm_100a
// source: gpa
#include <cuda_runtime.h>

namespace before {

// y may alias x for the compiler, so each load waits for the store before it.
__global__ void scale(const float* x, float* y, float a, int n) {
  const int stride = gridDim.x * blockDim.x;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) y[i] = a * x[i];
}

}  // namespace before

namespace after {

// Four independent loads are in flight before the first use; n + 4 * stride < 2^31.
__global__ void scale(const float* x, float* y, float a, int n) {
  constexpr int kLoads = 4;
  const int stride = gridDim.x * blockDim.x;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (; i + (kLoads - 1) * stride < n; i += kLoads * stride) {
    float v[kLoads];
#pragma unroll
    for (int u = 0; u < kLoads; ++u) v[u] = x[i + u * stride];
#pragma unroll
    for (int u = 0; u < kLoads; ++u) y[i + u * stride] = a * v[u];
  }
  for (; i < n; i += stride) y[i] = a * x[i];
}

}  // namespace after
