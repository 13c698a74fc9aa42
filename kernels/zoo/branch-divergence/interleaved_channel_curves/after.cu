// kernel: interleaved_channel_curves/after/cuda
// change: a warp takes every fourth element of its 128, so that all lanes evaluate the same curve
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kSteps = 96;

__device__ float film(float x) {
  float v = x;
#pragma unroll 8
  for (int step = 0; step < kSteps; ++step) v = x - 0.25f * v * v;
  return v;
}

__device__ float knee(float x) {
  float v = x;
#pragma unroll 8
  for (int step = 0; step < kSteps; ++step) v = 0.5f * x + 0.3f * v * (1.0f - v);
  return v;
}

__device__ float ring(float x) {
  float v = 0.0f, previous = 0.0f;
#pragma unroll 8
  for (int step = 0; step < kSteps; ++step) {
    const float next = 1.8f * x * v + (0.02f - previous);
    previous = v;
    v = next;
  }
  return v;
}

__device__ float root(float x) {
  float v = 1.0f;
#pragma unroll 8
  for (int step = 0; step < kSteps; ++step) v *= 1.5f - (0.25f + 0.5f * x) * v * v;
  return v;
}

__global__ void __launch_bounds__(kThreads)
    evaluate_curves(const float* __restrict__ image, float* __restrict__ result, std::int64_t n) {
  // Warp w of four takes elements w, w + 4, ... of their 128.
  const int slot = threadIdx.x / 128 * 128 + threadIdx.x % 32 * 4 + threadIdx.x / 32 % 4;
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + slot;
  if (i >= n) return;
  const float x = image[i];
  float y;
  switch (slot % 4) {
    case 0: y = film(x); break;
    case 1: y = knee(x); break;
    case 2: y = ring(x); break;
    default: y = root(x); break;
  }
  result[i] = y;
}

}  // namespace

extern "C" int apply_curves(const float* image, float* result, std::int64_t pixels, void* stream) {
  const std::int64_t n = 4 * pixels;
  const int blocks = static_cast<int>((n + kThreads - 1) / kThreads);
  evaluate_curves<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(image, result, n);
  return static_cast<int>(cudaGetLastError());
}
