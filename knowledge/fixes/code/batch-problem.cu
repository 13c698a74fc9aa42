// fix: batch-problem
// arch: sm_80 sm_90a sm_100a
// source: kernelkb-derivation
#include <cuda_runtime.h>

namespace before {

__global__ void scale_item(float* x, float a, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= a;
}

// factors lies on the host; one tiny launch per item.
void launch(float* x, const float* factors, int batch, int n, cudaStream_t stream) {
  for (int b = 0; b < batch; ++b) {
    float* item = x + static_cast<size_t>(b) * n;
    scale_item<<<(n + 255) / 256, 256, 0, stream>>>(item, factors[b], n);
  }
}

}  // namespace before

namespace after {

__global__ void scale_items(float* x, const float* factors, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.z;
  if (i < n) x[static_cast<size_t>(b) * n + i] *= factors[b];
}

// factors lies on the device; one launch for all items, batch <= 65535.
void launch(float* x, const float* factors, int batch, int n, cudaStream_t stream) {
  const dim3 grid((n + 255) / 256, 1, batch);
  scale_items<<<grid, 256, 0, stream>>>(x, factors, n);
}

}  // namespace after
