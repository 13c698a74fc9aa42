// kernel: tridiagonal_rows_of_64/before/cuda
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 64;
constexpr int kUnknowns = 64;

__global__ void __launch_bounds__(kThreads)
    solve_systems(const float* __restrict__ lower, const float* __restrict__ excess,
                  const float* __restrict__ upper, const float* __restrict__ right,
                  float* __restrict__ solutions, int systems) {
  __shared__ float ratios[kUnknowns][kThreads];
  __shared__ float values[kUnknowns][kThreads];
  const int lane = threadIdx.x;
  const int system = blockIdx.x * kThreads + lane;
  if (system >= systems) return;
  const std::int64_t start = static_cast<std::int64_t>(system) * kUnknowns;
  float ratio = 0.0f, value = 0.0f;
  for (int k = 0; k < kUnknowns; ++k) {
    const float below = lower[start + k], above = upper[start + k];
    const float diagonal = 1.0f + fabsf(excess[start + k]) + fabsf(below) + fabsf(above);
    const float inverse = 1.0f / (diagonal - below * ratio);
    value = (right[start + k] - below * value) * inverse;
    ratio = above * inverse;
    ratios[k][lane] = ratio;
    values[k][lane] = value;
  }
  value = 0.0f;
  for (int k = kUnknowns - 1; k >= 0; --k) {
    value = values[k][lane] - ratios[k][lane] * value;
    solutions[start + k] = value;
  }
}

}  // namespace

extern "C" int solve(const float* lower, const float* excess, const float* upper,
                     const float* right, float* solutions, std::int64_t systems, void* stream) {
  const int blocks = static_cast<int>((systems + kThreads - 1) / kThreads);
  solve_systems<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      lower, excess, upper, right, solutions, static_cast<int>(systems));
  return static_cast<int>(cudaGetLastError());
}
