// kernel: gemm_one_output_per_thread/before/cuda
// flaw: two shared loads for each multiply-add
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kSide = 16;
constexpr int kPer = 1;
constexpr int kTile = kSide * kPer;
constexpr int kDepth = 16;
constexpr int kThreads = kSide * kSide;

__global__ void __launch_bounds__(kThreads)
    multiply_tiles(const float* __restrict__ a, const float* __restrict__ b,
                   const float* __restrict__ bias, float* __restrict__ c, int m, int n, int k) {
  __shared__ __align__(16) float a_tile[kTile][kDepth + 1];
  __shared__ __align__(16) float b_tile[kDepth][kTile];
  const int tx = threadIdx.x % kSide, ty = threadIdx.x / kSide;
  const int first_row = blockIdx.y * kTile, first_column = blockIdx.x * kTile;
  float sum[kPer][kPer] = {};
  for (int start = 0; start < k; start += kDepth) {
#pragma unroll
    for (int i = 0; i < kPer; ++i) {
      const int at = threadIdx.x + i * kThreads;
      const int r = at / kDepth, p = at % kDepth, q = at / kTile, s = at % kTile;
      const bool has_a = first_row + r < m && start + p < k;
      const bool has_b = start + q < k && first_column + s < n;
      a_tile[r][p] = has_a ? a[static_cast<std::int64_t>(first_row + r) * k + start + p] : 0.0f;
      b_tile[q][s] = has_b ? b[static_cast<std::int64_t>(start + q) * n + first_column + s] : 0.0f;
    }
    __syncthreads();
#pragma unroll 8
    for (int p = 0; p < kDepth; ++p) {
      float left[kPer], right[kPer];
#pragma unroll
      for (int i = 0; i < kPer; ++i) left[i] = a_tile[ty * kPer + i][p];
#pragma unroll
      for (int j = 0; j < kPer; ++j) right[j] = b_tile[p][tx * kPer + j];
#pragma unroll
      for (int i = 0; i < kPer; ++i) {
#pragma unroll
        for (int j = 0; j < kPer; ++j) sum[i][j] += left[i] * right[j];
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kPer; ++i) {
#pragma unroll
    for (int j = 0; j < kPer; ++j) {
      const int row = first_row + ty * kPer + i, column = first_column + tx * kPer + j;
      if (row < m && column < n) {
        c[static_cast<std::int64_t>(row) * n + column] = sum[i][j] + bias[column];
      }
    }
  }
}

}  // namespace

extern "C" int linear(const float* a, const float* b, const float* bias, float* c, std::int64_t m,
                      std::int64_t n, std::int64_t k, void* stream) {
  const dim3 grid((n + kTile - 1) / kTile, (m + kTile - 1) / kTile);
  multiply_tiles<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      a, b, bias, c, static_cast<int>(m), static_cast<int>(n), static_cast<int>(k));
  return static_cast<int>(cudaGetLastError());
}
