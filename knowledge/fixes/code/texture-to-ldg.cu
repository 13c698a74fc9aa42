// fix: texture-to-ldg
// arch: sm_80 sm_90a sm_100a
// source: nsight-compute-rules
#include <cuda_runtime.h>

namespace before {

// A texture over linear memory, read by element: each fetch goes through the texture queue.
__global__ void gather(cudaTextureObject_t x, const int* __restrict__ index,
                       float* __restrict__ y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = tex1Dfetch<float>(x, index[i]);
}

}  // namespace before

namespace after {

// The same cache by an ordinary read-only load, without a limit on the number of texels.
__global__ void gather(const float* __restrict__ x, const int* __restrict__ index,
                       float* __restrict__ y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = __ldg(x + index[i]);
}

}  // namespace after
