// kernel: implicit_steps_small_systems/after/cuda
// change: two blocks on an SM, so that 128 registers a thread hold the factor and the state
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kMinBlocks = 2;
constexpr int kSize = 12;
constexpr int kEntries = kSize * (kSize + 1) / 2;
constexpr int kSteps = 64;

// A thread a system: x becomes the solution of (2 I + L) x' = x + b in every step. The entries of
// the lower triangle L lie row by row, each n apart from the next.
__global__ void __launch_bounds__(kThreads, kMinBlocks)
    step_systems(const float* __restrict__ lower, const float* __restrict__ b,
                 float* __restrict__ out, std::int64_t n) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  float factor[kEntries];
  float x[kSize];
#pragma unroll
  for (int e = 0; e < kEntries; ++e) factor[e] = lower[e * n + i];
#pragma unroll
  for (int r = 0; r < kSize; ++r) {
    float& pivot = factor[r * (r + 1) / 2 + r];
    pivot = 1.0f / (2.0f + pivot);
    x[r] = b[r * n + i];
  }
  for (int step = 0; step < kSteps; ++step) {
#pragma unroll
    for (int r = 0; r < kSize; ++r) x[r] += b[r * n + i];
#pragma unroll
    for (int c = 0; c < kSize; ++c) {
      x[c] *= factor[c * (c + 1) / 2 + c];
#pragma unroll
      for (int r = c + 1; r < kSize; ++r) x[r] -= factor[r * (r + 1) / 2 + c] * x[c];
    }
  }
#pragma unroll
  for (int r = 0; r < kSize; ++r) out[r * n + i] = x[r];
}

}  // namespace

extern "C" int step_implicit(const float* lower, const float* b, float* out, std::int64_t n,
                             void* stream) {
  const unsigned int blocks = static_cast<unsigned int>((n + kThreads - 1) / kThreads);
  step_systems<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(lower, b, out, n);
  return static_cast<int>(cudaGetLastError());
}
