// kernel: silu_staged_tile/after/cuda
// change: a block of 256 threads stages its 16384 values in 64 KB of shared memory first
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kTile = 16384;

__global__ void __launch_bounds__(kThreads)
    activate(const float* __restrict__ x, float* __restrict__ y, std::int64_t n) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kTile;
  const int count = n - first < kTile ? static_cast<int>(n - first) : kTile;
  const float* from = x + first;
  float* to = y + first;
  extern __shared__ float staged[];
#pragma unroll 4
  for (int i = threadIdx.x; i < count; i += kThreads) staged[i] = from[i];
  __syncthreads();
#pragma unroll 4
  for (int i = threadIdx.x; i < count; i += kThreads) {
    const float value = staged[i];
    to[i] = value / (1.0f + expf(-value));
  }
}

}  // namespace

extern "C" int silu(const float* x, float* y, std::int64_t n, void* stream) {
  const unsigned blocks = static_cast<unsigned>((n + kTile - 1) / kTile);
  constexpr int kBytes = kTile * sizeof(float);
  const cudaError_t error =
      cudaFuncSetAttribute(activate, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  if (error != cudaSuccess) return static_cast<int>(error);
  activate<<<blocks, kThreads, kBytes, static_cast<cudaStream_t>(stream)>>>(x, y, n);
  return static_cast<int>(cudaGetLastError());
}
