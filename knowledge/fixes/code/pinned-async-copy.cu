// fix: pinned-async-copy
// arch: sm_80 sm_90a sm_100a
// source: compute-triage-guide
#include <cuda_runtime.h>

__global__ void square(float* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= x[i];
}

// n is a multiple of part, the number of elements in a piece.
namespace before {

// Pageable host memory: copy in, compute, copy out, one after the other.
cudaError_t run(float* host, float* device, int n, int part) {
  const size_t bytes = part * sizeof(float);
  cudaError_t error = cudaSuccess;
  for (int first = 0; first < n && error == cudaSuccess; first += part) {
    cudaMemcpy(device, host + first, bytes, cudaMemcpyHostToDevice);
    square<<<(part + 255) / 256, 256>>>(device, part);
    error = cudaMemcpy(host + first, device, bytes, cudaMemcpyDeviceToHost);
  }
  return error;
}

}  // namespace before

namespace after {

// host is pinned (cudaMallocHost); device holds two pieces, one for each stream.
// One stream's copies overlap the other's kernel; order within a stream protects its buffer.
cudaError_t run(float* host, float* device, int n, int part, cudaStream_t (&streams)[2]) {
  const size_t bytes = part * sizeof(float);
  for (int first = 0, s = 0; first < n; first += part, s = 1 - s) {
    float* piece = device + static_cast<size_t>(s) * part;
    cudaMemcpyAsync(piece, host + first, bytes, cudaMemcpyHostToDevice, streams[s]);
    square<<<(part + 255) / 256, 256, 0, streams[s]>>>(piece, part);
    cudaMemcpyAsync(host + first, piece, bytes, cudaMemcpyDeviceToHost, streams[s]);
  }
  const cudaError_t error = cudaStreamSynchronize(streams[0]);
  return error != cudaSuccess ? error : cudaStreamSynchronize(streams[1]);
}

}  // namespace after
