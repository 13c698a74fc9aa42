// kernel: gram_smaller_tile/after/cuda
// change: a block tile of 32 x 32 instead of 64 x 64, 2 x 2 outputs a thread instead of 4 x 4
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kSide = 16;
constexpr int kPer = 2;
constexpr int kTile = kSide * kPer;
constexpr int kDepth = 16;
constexpr int kThreads = kSide * kSide;

__device__ void load_tile(const float* __restrict__ from, float (*tile)[kTile + 1], int start,
                          int first, int depth, int size) {
#pragma unroll
  for (int i = 0; i < kPer; ++i) {
    const int s = threadIdx.x / kDepth + i * kSide, p = threadIdx.x % kDepth;
    const bool is_inside = start + p < depth && first + s < size;
    tile[p][s] = is_inside ? from[static_cast<std::int64_t>(first + s) * depth + start + p] : 0.0f;
  }
}

__global__ void __launch_bounds__(kThreads)
    multiply_tiles(const float* __restrict__ a, const float* __restrict__ b,
                   float* __restrict__ c, int m, int n, int k) {
  __shared__ float a_tile[kDepth][kTile + 1];
  __shared__ float b_tile[kDepth][kTile + 1];
  const int tx = threadIdx.x % kSide, ty = threadIdx.x / kSide;
  const int first_row = blockIdx.y * kTile, first_column = blockIdx.x * kTile;
  float sum[kPer][kPer] = {};
  for (int start = 0; start < k; start += kDepth) {
    load_tile(a, a_tile, start, first_row, k, m);
    load_tile(b, b_tile, start, first_column, k, n);
    __syncthreads();
#pragma unroll 8
    for (int p = 0; p < kDepth; ++p) {
      float left[kPer], right[kPer];
#pragma unroll
      for (int i = 0; i < kPer; ++i) left[i] = a_tile[p][ty + i * kSide];
#pragma unroll
      for (int j = 0; j < kPer; ++j) right[j] = b_tile[p][tx + j * kSide];
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
      const int row = first_row + ty + i * kSide, column = first_column + tx + j * kSide;
      if (row < m && column < n) c[static_cast<std::int64_t>(row) * n + column] = sum[i][j];
    }
  }
}

}  // namespace

extern "C" int row_products(const float* a, const float* b, float* c, std::int64_t m,
                            std::int64_t n, std::int64_t k, void* stream) {
  const dim3 grid((n + kTile - 1) / kTile, (m + kTile - 1) / kTile);
  multiply_tiles<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      a, b, c, static_cast<int>(m), static_cast<int>(n), static_cast<int>(k));
  return static_cast<int>(cudaGetLastError());
}
