// kernel: weighted_density_sum/after/cuda
// change: the window is evaluated once for each source, when the block stages it
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;

__device__ float window(float t) {
  constexpr float kFactors[13] = {0.42f, 0.31f, -0.27f, 0.18f,  0.13f, -0.11f, 0.09f,
                                  0.07f, -0.06f, 0.05f, -0.04f, 0.03f, 0.02f};
  float sum = kFactors[12];
#pragma unroll
  for (int i = 11; i >= 0; --i) sum = sum * t + kFactors[i];
  return sum;
}

__global__ void __launch_bounds__(kThreads)
    add_sources(const float* __restrict__ targets, const float* __restrict__ sources,
                float* __restrict__ density, int n, int m) {
  __shared__ float tile[kThreads];
  __shared__ float windows[kThreads];
  const int i = blockIdx.x * kThreads + threadIdx.x;
  const float target = i < n ? targets[i] : 0.0f;
  float sum = 0.0f;
  for (int first = 0; first < m; first += kThreads) {
    const int count = min(kThreads, m - first);
    __syncthreads();
    if (threadIdx.x < count) {
      tile[threadIdx.x] = sources[first + threadIdx.x];
      windows[threadIdx.x] = window(tile[threadIdx.x]);
    }
    __syncthreads();
#pragma unroll 8
    for (int j = 0; j < count; ++j) {
      const float distance = target - tile[j];
      const float near = 1.0f - distance * distance;
      sum += windows[j] * (near * near * near);
    }
  }
  if (i < n) density[i] = sum;
}

}  // namespace

extern "C" int sum_density(const float* targets, const float* sources, float* density,
                           std::int64_t n, std::int64_t m, void* stream) {
  const int blocks = static_cast<int>((n + kThreads - 1) / kThreads);
  add_sources<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      targets, sources, density, static_cast<int>(n), static_cast<int>(m));
  return static_cast<int>(cudaGetLastError());
}
