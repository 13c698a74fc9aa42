// fix: uniform-constant-index
// arch: sm_80 sm_90a sm_100a
// source: nsight-compute-rules
#include <cuda_runtime.h>

__constant__ float gain[4];  // per channel of RGBA pixels; set by cudaMemcpyToSymbol

namespace before {

// Lanes ask for four different constants, which are served one after another.
__global__ void scale_channels(const float* __restrict__ x, float* __restrict__ y, int pixels) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < 4 * pixels) y[i] = gain[i % 4] * x[i];
}

}  // namespace before

namespace after {

// A thread per pixel: at each point all lanes use the same constant.
// x and y are aligned to 16 bytes.
__global__ void scale_channels(const float* __restrict__ x, float* __restrict__ y, int pixels) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= pixels) return;
  const float4 v = reinterpret_cast<const float4*>(x)[i];
  reinterpret_cast<float4*>(y)[i] =
      make_float4(gain[0] * v.x, gain[1] * v.y, gain[2] * v.z, gain[3] * v.w);
}

}  // namespace after
