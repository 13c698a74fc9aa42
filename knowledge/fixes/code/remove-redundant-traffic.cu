// fix: remove-redundant-traffic
// arch: sm_80 sm_90a sm_100a
// source: kernelkb-derivation
#include <cuda_runtime.h>

// Doubles a slice of cols columns out of rows that are pitch elements apart.
namespace before {

__global__ void double_all(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.0f * x[i];
}

// A dense copy first: 8 bytes an element for the copy, 8 for the kernel, 4 for the memset.
void launch(const float* x, float* dense, float* y, int rows, int cols, int pitch,
            cudaStream_t stream) {
  const size_t width = cols * sizeof(float);
  cudaMemcpy2DAsync(dense, width, x, pitch * sizeof(float), width, rows,
                    cudaMemcpyDeviceToDevice, stream);
  cudaMemsetAsync(y, 0, width * rows, stream);
  double_all<<<(rows * cols + 255) / 256, 256, 0, stream>>>(dense, y, rows * cols);
}

}  // namespace before

namespace after {

__global__ void double_slice(const float* x, float* y, int cols, int pitch) {
  const int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y;
  if (c >= cols) return;
  y[static_cast<size_t>(r) * cols + c] = 2.0f * x[static_cast<size_t>(r) * pitch + c];
}

// The kernel reads the slice in place: 8 bytes an element. rows <= 65535.
void launch(const float* x, float* y, int rows, int cols, int pitch, cudaStream_t stream) {
  double_slice<<<dim3((cols + 255) / 256, rows), 256, 0, stream>>>(x, y, cols, pitch);
}

}  // namespace after
