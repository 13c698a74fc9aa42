// kernel: covariance_tile_16x16_a_thread/before/cuda
// flaw: 256 sums a thread do not fit into registers, and its loads are 16 words apart
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kSide = 16;
constexpr int kPer = 16;
constexpr int kTile = kSide * kPer;
constexpr int kDepth = 8;
constexpr int kThreads = kSide * kSide;

__device__ void load_tile(const float* __restrict__ from, float (*tile)[kTile], int start,
                          int first, int depth, int size) {
  for (int i = threadIdx.x; i < kDepth * kTile; i += kThreads) {
    const int p = i / kTile, s = i % kTile;
    const bool is_inside = start + p < depth && first + s < size;
    tile[p][s] = is_inside ? from[static_cast<std::int64_t>(start + p) * size + first + s] : 0.0f;
  }
}

__global__ void __launch_bounds__(kThreads)
    multiply_tiles(const float* __restrict__ a, const float* __restrict__ b,
                   float* __restrict__ c, int k, int m, int n) {
  __shared__ __align__(16) float a_tile[kDepth][kTile];
  __shared__ __align__(16) float b_tile[kDepth][kTile];
  const int tx = threadIdx.x % kSide, ty = threadIdx.x / kSide;
  const int first_row = blockIdx.y * kTile, first_column = blockIdx.x * kTile;
  float sum[kPer][kPer] = {};
  for (int start = 0; start < k; start += kDepth) {
    load_tile(a, a_tile, start, first_row, k, m);
    load_tile(b, b_tile, start, first_column, k, n);
    __syncthreads();
#pragma unroll 2
    for (int p = 0; p < kDepth; ++p) {
      float left[kPer], right[kPer];
#pragma unroll
      for (int i = 0; i < kPer; ++i) left[i] = a_tile[p][ty * kPer + i];
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
      if (row < m && column < n) c[static_cast<std::int64_t>(row) * n + column] = sum[i][j];
    }
  }
}

}  // namespace

extern "C" int cross_product(const float* a, const float* b, float* c, std::int64_t k,
                             std::int64_t m, std::int64_t n, void* stream) {
  const dim3 grid((n + kTile - 1) / kTile, (m + kTile - 1) / kTile);
  multiply_tiles<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      a, b, c, static_cast<int>(k), static_cast<int>(m), static_cast<int>(n));
  return static_cast<int>(cudaGetLastError());
}
