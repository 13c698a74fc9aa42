// kernel: tridiagonal_rows_of_64/after/cuda
// change: a block copies eight columns of its systems at a time, and its solutions, by rows
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 64;
constexpr int kUnknowns = 64;
constexpr int kColumns = 8;  // of a tile

__global__ void __launch_bounds__(kThreads)
    solve_systems(const float* __restrict__ lower, const float* __restrict__ excess,
                  const float* __restrict__ upper, const float* __restrict__ right,
                  float* __restrict__ solutions, int systems) {
  __shared__ float ratios[kUnknowns][kThreads];
  __shared__ float values[kUnknowns][kThreads + 1];
  __shared__ float tile[4][kThreads][kColumns + 1];
  const int lane = threadIdx.x;
  const int count = min(kThreads, systems - static_cast<int>(blockIdx.x) * kThreads);
  const std::int64_t start = static_cast<std::int64_t>(blockIdx.x) * kThreads * kUnknowns;
  const float* sources[4] = {lower + start, excess + start, upper + start, right + start};
  float ratio = 0.0f, value = 0.0f;
  for (int first = 0; first < kUnknowns; first += kColumns) {
#pragma unroll
    for (int a = 0; a < 4; ++a) {
#pragma unroll
      for (int i = lane; i < kThreads * kColumns; i += kThreads) {
        const int row = i / kColumns, column = i % kColumns;
        if (row < count) tile[a][row][column] = sources[a][row * kUnknowns + first + column];
      }
    }
    __syncthreads();
    if (lane < count) {
#pragma unroll
      for (int column = 0; column < kColumns; ++column) {
        const float below = tile[0][lane][column], above = tile[2][lane][column];
        const float diagonal = 1.0f + fabsf(tile[1][lane][column]) + fabsf(below) + fabsf(above);
        const float inverse = 1.0f / (diagonal - below * ratio);
        value = (tile[3][lane][column] - below * value) * inverse;
        ratio = above * inverse;
        ratios[first + column][lane] = ratio;
        values[first + column][lane] = value;
      }
    }
    __syncthreads();
  }
  if (lane < count) {
    value = 0.0f;
    for (int k = kUnknowns - 1; k >= 0; --k) {
      value = values[k][lane] - ratios[k][lane] * value;
      values[k][lane] = value;
    }
  }
  __syncthreads();
  for (int i = lane; i < count * kUnknowns; i += kThreads) {
    solutions[start + i] = values[i % kUnknowns][i / kUnknowns];
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
