// kernel: forced_recurrence/after/cuda
// change: each thread steps four elements at once; a quarter of the blocks
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 128;
constexpr int kSteps = 32768;
constexpr int kItems = 4;

__global__ void __launch_bounds__(kThreads)
    step_all(const float* __restrict__ factors, const float* __restrict__ start,
             const float* __restrict__ series, float* __restrict__ last, int n) {
  extern __shared__ float4 staged[];
  for (int t = threadIdx.x; t < kSteps / 4; t += kThreads) {
    staged[t] = reinterpret_cast<const float4*>(series)[t];
  }
  __syncthreads();
  const int first = blockIdx.x * kThreads * kItems + threadIdx.x;
  float factor[kItems], y[kItems];
  for (int item = 0; item < kItems; ++item) {
    const int i = first + item * kThreads;
    factor[item] = i < n ? factors[i] : 0.0f;
    y[item] = i < n ? start[i] : 0.0f;
  }
#pragma unroll 16
  for (int t = 0; t < kSteps / 4; ++t) {
    const float4 force = staged[t];
    for (int item = 0; item < kItems; ++item) y[item] = factor[item] * y[item] + force.x;
    for (int item = 0; item < kItems; ++item) y[item] = factor[item] * y[item] + force.y;
    for (int item = 0; item < kItems; ++item) y[item] = factor[item] * y[item] + force.z;
    for (int item = 0; item < kItems; ++item) y[item] = factor[item] * y[item] + force.w;
  }
  for (int item = 0; item < kItems; ++item) {
    const int i = first + item * kThreads;
    if (i < n) last[i] = y[item];
  }
}

}  // namespace

extern "C" int run_recurrence(const float* factors, const float* start, const float* series,
                              float* last, std::int64_t n, void* stream) {
  constexpr int kBytes = kSteps * sizeof(float);
  cudaFuncSetAttribute(step_all, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  const int blocks = static_cast<int>((n + kThreads * kItems - 1) / (kThreads * kItems));
  step_all<<<blocks, kThreads, kBytes, static_cast<cudaStream_t>(stream)>>>(
      factors, start, series, last, static_cast<int>(n));
  return static_cast<int>(cudaGetLastError());
}
