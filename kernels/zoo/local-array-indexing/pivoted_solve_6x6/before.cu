// kernel: pivoted_solve_6x6/before/cuda
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 128;
constexpr int kOrder = 6;

// A thread a system of six equations; equation, unknown and system are the order in memory.
__global__ void __launch_bounds__(kThreads)
    solve_systems(const float* __restrict__ matrices, const float* __restrict__ right,
                  float* __restrict__ solutions, int n) {
  const int system = blockIdx.x * kThreads + threadIdx.x;
  if (system >= n) return;
  float a[kOrder][kOrder + 1];
#pragma unroll
  for (int row = 0; row < kOrder; ++row) {
#pragma unroll
    for (int column = 0; column < kOrder; ++column) {
      a[row][column] =
          matrices[static_cast<std::int64_t>(row * kOrder + column) * n + system];
    }
    a[row][kOrder] = right[static_cast<std::int64_t>(row) * n + system];
  }
#pragma unroll
  for (int k = 0; k < kOrder; ++k) {
    int pivot = k;
    float largest = fabsf(a[k][k]);
#pragma unroll
    for (int row = k + 1; row < kOrder; ++row) {
      if (fabsf(a[row][k]) > largest) {
        largest = fabsf(a[row][k]);
        pivot = row;
      }
    }
#pragma unroll
    for (int column = k; column <= kOrder; ++column) {
      const float upper = a[k][column];
      a[k][column] = a[pivot][column];
      a[pivot][column] = upper;
    }
    const float inverse = 1.0f / a[k][k];
#pragma unroll
    for (int row = k + 1; row < kOrder; ++row) {
      const float factor = a[row][k] * inverse;
#pragma unroll
      for (int column = k + 1; column <= kOrder; ++column) {
        a[row][column] -= factor * a[k][column];
      }
    }
  }
  float x[kOrder];
#pragma unroll
  for (int row = kOrder - 1; row >= 0; --row) {
    float sum = a[row][kOrder];
#pragma unroll
    for (int column = row + 1; column < kOrder; ++column) sum -= a[row][column] * x[column];
    x[row] = sum / a[row][row];
    solutions[static_cast<std::int64_t>(row) * n + system] = x[row];
  }
}

}  // namespace

extern "C" int solve(const float* matrices, const float* right, float* solutions, std::int64_t n,
                     void* stream) {
  const int blocks = static_cast<int>((n + kThreads - 1) / kThreads);
  solve_systems<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      matrices, right, solutions, static_cast<int>(n));
  return static_cast<int>(cudaGetLastError());
}
