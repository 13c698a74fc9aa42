// kernel: duffing_rk4_ensemble/after/cuda
// change: two oscillators a thread instead of one, so that two independent chains overlap
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kPerThread = 2;
constexpr int kSteps = 256;
constexpr float kTime = 0.015625f;
constexpr float kDamping = 0.25f;

__device__ float acceleration(float x, float v, float linear, float cubic) {
  return -(kDamping * v) - x * (linear + cubic * (x * x));
}

__device__ void advance(float& x, float& v, float linear, float cubic) {
  const float a1 = acceleration(x, v, linear, cubic);
  const float v2 = v + 0.5f * kTime * a1;
  const float a2 = acceleration(x + 0.5f * kTime * v, v2, linear, cubic);
  const float v3 = v + 0.5f * kTime * a2;
  const float a3 = acceleration(x + 0.5f * kTime * v2, v3, linear, cubic);
  const float v4 = v + kTime * a3;
  const float a4 = acceleration(x + kTime * v3, v4, linear, cubic);
  x += kTime / 6.0f * (v + 2.0f * (v2 + v3) + v4);
  v += kTime / 6.0f * (a1 + 2.0f * (a2 + a3) + a4);
}

__global__ void __launch_bounds__(kThreads)
    integrate(const float* __restrict__ position, const float* __restrict__ velocity,
              const float* __restrict__ linear, const float* __restrict__ cubic,
              float* __restrict__ end_position, float* __restrict__ end_velocity,
              std::int64_t n) {
  const std::int64_t first =
      static_cast<std::int64_t>(blockIdx.x) * kThreads * kPerThread + threadIdx.x;
  float x[kPerThread];
  float v[kPerThread];
  float k[kPerThread];
  float c[kPerThread];
#pragma unroll
  for (int e = 0; e < kPerThread; ++e) {
    const std::int64_t i = first + e * kThreads;
    x[e] = i < n ? position[i] : 0.0f;
    v[e] = i < n ? velocity[i] : 0.0f;
    k[e] = i < n ? linear[i] : 0.0f;
    c[e] = i < n ? cubic[i] : 0.0f;
  }
#pragma unroll 4
  for (int step = 0; step < kSteps; ++step) {
#pragma unroll
    for (int e = 0; e < kPerThread; ++e) advance(x[e], v[e], k[e], c[e]);
  }
#pragma unroll
  for (int e = 0; e < kPerThread; ++e) {
    const std::int64_t i = first + e * kThreads;
    if (i < n) {
      end_position[i] = x[e];
      end_velocity[i] = v[e];
    }
  }
}

}  // namespace

extern "C" int duffing(const float* position, const float* velocity, const float* linear,
                       const float* cubic, float* end_position, float* end_velocity,
                       std::int64_t n, void* stream) {
  constexpr int kItems = kThreads * kPerThread;
  const unsigned blocks = static_cast<unsigned>((n + kItems - 1) / kItems);
  integrate<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      position, velocity, linear, cubic, end_position, end_velocity, n);
  return static_cast<int>(cudaGetLastError());
}
