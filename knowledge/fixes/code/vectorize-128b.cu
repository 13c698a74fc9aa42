// fix: vectorize-128b
// arch: sm_80 sm_90a sm_100a
// source: vector-load-measurement
#include <cuda_runtime.h>

namespace before {

__global__ void scale(const float* __restrict__ x, float* __restrict__ y, float a, int n) {
  const int stride = gridDim.x * blockDim.x;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) y[i] = a * x[i];
}

}  // namespace before

namespace after {

// x and y are aligned to 16 bytes, as cudaMalloc returns them; n need not divide by 4.
__global__ void scale(const float* __restrict__ x, float* __restrict__ y, float a, int n) {
  const float4* x4 = reinterpret_cast<const float4*>(x);
  float4* y4 = reinterpret_cast<float4*>(y);
  const int first = blockIdx.x * blockDim.x + threadIdx.x;
  const int stride = gridDim.x * blockDim.x;
  for (int i = first; i < n / 4; i += stride) {
    const float4 v = x4[i];
    y4[i] = make_float4(a * v.x, a * v.y, a * v.z, a * v.w);
  }
  const int tail = n / 4 * 4 + first;  // the last 0 to 3 elements
  if (tail < n) y[tail] = a * x[tail];
}

}  // namespace after
