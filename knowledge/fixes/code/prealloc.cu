// fix: prealloc
// arch: sm_80 sm_90a sm_100a
// source: compute-triage-guide
#include <cstdint>

#include <cuda_runtime.h>

__global__ void square(const float* x, float* scratch, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) scratch[i] = x[i] * x[i];
}

__global__ void add_neighbours(const float* scratch, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = scratch[i] + scratch[i > 0 ? i - 1 : 0];
}

void submit(const float* x, float* scratch, float* y, int n, cudaStream_t stream) {
  square<<<(n + 255) / 256, 256, 0, stream>>>(x, scratch, n);
  add_neighbours<<<(n + 255) / 256, 256, 0, stream>>>(scratch, y, n);
}

namespace before {

// cudaFree waits for the device, so each call drains it.
cudaError_t run(const float* x, float* y, int n, cudaStream_t stream) {
  float* scratch = nullptr;
  const cudaError_t error = cudaMalloc(&scratch, n * sizeof(float));
  if (error != cudaSuccess) return error;
  submit(x, scratch, y, n, stream);
  return cudaFree(scratch);
}

}  // namespace before

namespace after {

// Once: the pool keeps its memory instead of returning it at the next synchronisation.
cudaError_t keep_memory(int device) {
  cudaMemPool_t pool;
  std::uint64_t everything = UINT64_MAX;
  const cudaError_t error = cudaDeviceGetDefaultMemPool(&pool, device);
  if (error != cudaSuccess) return error;
  return cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &everything);
}

// Memory from the pool, in the order of the stream: the host never waits.
cudaError_t run(const float* x, float* y, int n, cudaStream_t stream) {
  float* scratch = nullptr;
  const cudaError_t error = cudaMallocAsync(&scratch, n * sizeof(float), stream);
  if (error != cudaSuccess) return error;
  submit(x, scratch, y, n, stream);
  return cudaFreeAsync(scratch, stream);
}

}  // namespace after
