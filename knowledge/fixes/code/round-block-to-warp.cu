// fix: round-block-to-warp
// arch: sm_80 sm_90a sm_100a
// source: nsight-compute-rules
#include <cuda_runtime.h>

__global__ void scale(float* x, float a, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= a;
}

namespace before {

// 100 threads take 4 warps, and 28 lanes of the last one never work.
void launch(float* x, float a, int n, cudaStream_t stream) {
  scale<<<(n + 99) / 100, 100, 0, stream>>>(x, a, n);
}

}  // namespace before

namespace after {

// The same 4 warps serve 128 elements; the guard in the kernel covers the last block.
void launch(float* x, float a, int n, cudaStream_t stream) {
  scale<<<(n + 127) / 128, 128, 0, stream>>>(x, a, n);
}

}  // namespace after
