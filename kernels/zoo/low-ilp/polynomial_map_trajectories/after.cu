// kernel: polynomial_map_trajectories/after/cuda
// change: the same polynomial by Estrin's scheme, whose chain has five levels
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 128;
constexpr int kTerms = 32;
constexpr int kTimes = 256;
constexpr int kSubsteps = 4;
constexpr int kPitch = kTimes + 1;

__device__ float evaluate(const float (&factors)[kTerms], float x) {
  float a[16], b[8], c[4];
#pragma unroll
  for (int k = 0; k < 16; ++k) a[k] = factors[2 * k + 1] * x + factors[2 * k];
  x *= x;
#pragma unroll
  for (int k = 0; k < 8; ++k) b[k] = a[2 * k + 1] * x + a[2 * k];
  x *= x;
#pragma unroll
  for (int k = 0; k < 4; ++k) c[k] = b[2 * k + 1] * x + b[2 * k];
  x *= x;
  return (c[3] * x + c[2]) * (x * x) + (c[1] * x + c[0]);
}

__global__ void __launch_bounds__(kThreads)
    iterate_map(const float* __restrict__ factors, const float* __restrict__ gains,
                const float* __restrict__ drive, float* __restrict__ trajectories, int n) {
  extern __shared__ float states[];
  __shared__ float forces[kTimes];
  for (int t = threadIdx.x; t < kTimes; t += kThreads) forces[t] = drive[t];
  float own_factors[kTerms];
#pragma unroll
  for (int k = 0; k < kTerms; ++k) own_factors[k] = factors[k];
  __syncthreads();
  const int first = blockIdx.x * kThreads;
  const float gain = first + threadIdx.x < n ? gains[first + threadIdx.x] : 0.0f;
  float x = 0.0f;
  for (int t = 0; t < kTimes; ++t) {
    const float force = gain * forces[t];
    for (int step = 0; step < kSubsteps; ++step) x = evaluate(own_factors, x) + force;
    states[threadIdx.x * kPitch + t] = x;
  }
  __syncthreads();
  const int rows = min(kThreads, n - first);
  for (int i = threadIdx.x; i < rows * kTimes; i += kThreads) {
    trajectories[static_cast<std::int64_t>(first) * kTimes + i] =
        states[i / kTimes * kPitch + i % kTimes];
  }
}

}  // namespace

extern "C" int trace(const float* factors, const float* gains, const float* drive,
                     float* trajectories, std::int64_t n, void* stream) {
  constexpr int kBytes = kThreads * kPitch * sizeof(float);
  cudaFuncSetAttribute(iterate_map, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  const int blocks = static_cast<int>((n + kThreads - 1) / kThreads);
  iterate_map<<<blocks, kThreads, kBytes, static_cast<cudaStream_t>(stream)>>>(
      factors, gains, drive, trajectories, static_cast<int>(n));
  return static_cast<int>(cudaGetLastError());
}
