// fix: library-first
// arch: sm_80 sm_90a sm_100a
// source: kernelkb-judgement
#include <cub/device/device_reduce.cuh>
#include <cuda_runtime.h>

namespace before {

// A reduction of our own: fixed block, scalar loads, one atomic per warp. *out starts at 0.
__global__ void sum(const float* __restrict__ x, float* out, int n) {
  const int stride = gridDim.x * blockDim.x;
  float v = 0.0f;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) v += x[i];
#pragma unroll
  for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(~0u, v, d);
  if (threadIdx.x % 32 == 0) atomicAdd(out, v);
}

void launch(const float* x, float* out, int n, cudaStream_t stream) {
  cudaMemsetAsync(out, 0, sizeof(float), stream);
  sum<<<1024, 256, 0, stream>>>(x, out, n);
}

}  // namespace before

namespace after {

// The library picks vector width, items per thread and grid for the architecture.
cudaError_t launch(const float* x, float* out, int n, cudaStream_t stream) {
  void* temp = nullptr;
  size_t bytes = 0;
  cub::DeviceReduce::Sum(nullptr, bytes, x, out, n, stream);  // asks for the size only
  cudaError_t error = cudaMallocAsync(&temp, bytes, stream);
  if (error != cudaSuccess) return error;
  error = cub::DeviceReduce::Sum(temp, bytes, x, out, n, stream);
  cudaFreeAsync(temp, stream);
  return error;
}

}  // namespace after
