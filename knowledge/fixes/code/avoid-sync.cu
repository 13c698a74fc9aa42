// fix: avoid-sync
// arch: sm_80 sm_90a sm_100a
// source: compute-triage-guide
#include <cuda_runtime.h>

// One step towards zero; adds the squares of the new values to *loss.
__global__ void step(float* x, float* loss, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float square = 0.0f;
  if (i < n) {
    x[i] *= 0.99f;
    square = x[i] * x[i];
  }
#pragma unroll
  for (int d = 16; d > 0; d /= 2) square += __shfl_xor_sync(~0u, square, d);
  if (threadIdx.x % 32 == 0) atomicAdd(loss, square);
}

// losses (device, steps floats) is zero at the start; history is host memory.
namespace before {

cudaError_t run(float* x, float* losses, float* history, int n, int steps,
                cudaStream_t stream) {
  cudaError_t error = cudaSuccess;
  for (int s = 0; s < steps && error == cudaSuccess; ++s) {
    step<<<(n + 255) / 256, 256, 0, stream>>>(x, losses + s, n);
    cudaMemcpyAsync(history + s, losses + s, sizeof(float), cudaMemcpyDeviceToHost, stream);
    error = cudaStreamSynchronize(stream);  // the GPU idles until the next launch
  }
  return error;
}

}  // namespace before

namespace after {

cudaError_t run(float* x, float* losses, float* history, int n, int steps,
                cudaStream_t stream) {
  for (int s = 0; s < steps; ++s) {
    step<<<(n + 255) / 256, 256, 0, stream>>>(x, losses + s, n);
  }
  cudaMemcpyAsync(history, losses, steps * sizeof(float), cudaMemcpyDeviceToHost, stream);
  return cudaStreamSynchronize(stream);  // once
}

}  // namespace after
