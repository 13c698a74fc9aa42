// fix: move-data-to-device
// arch: sm_80 sm_90a sm_100a
// source: nsight-compute-rules
#include <cuda_runtime.h>

__global__ void add_scaled(const float* x, float* y, float a, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = fmaf(a, x[i], y[i]);
}

// host_x is pinned host memory, y is device memory.
namespace before {

// Every pass reads 4 n bytes over PCIe or NVLink from inside the kernel.
cudaError_t run(const float* host_x, float* y, float a, int n, int passes,
                cudaStream_t stream) {
  void* mapped = nullptr;
  cudaError_t error = cudaHostGetDevicePointer(&mapped, const_cast<float*>(host_x), 0);
  if (error != cudaSuccess) return error;
  for (int p = 0; p < passes; ++p) {
    add_scaled<<<(n + 255) / 256, 256, 0, stream>>>(static_cast<float*>(mapped), y, a, n);
  }
  return cudaGetLastError();
}

}  // namespace before

namespace after {

// The link carries 4 n bytes once; the passes read device memory.
cudaError_t run(const float* host_x, float* y, float a, int n, int passes,
                cudaStream_t stream) {
  float* x = nullptr;
  const size_t bytes = sizeof(float) * static_cast<size_t>(n);
  cudaError_t error = cudaMallocAsync(&x, bytes, stream);
  if (error != cudaSuccess) return error;
  error = cudaMemcpyAsync(x, host_x, bytes, cudaMemcpyHostToDevice, stream);
  for (int p = 0; p < passes && error == cudaSuccess; ++p) {
    add_scaled<<<(n + 255) / 256, 256, 0, stream>>>(x, y, a, n);
    error = cudaGetLastError();
  }
  cudaFreeAsync(x, stream);
  return error;
}

}  // namespace after
