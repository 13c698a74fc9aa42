// kernel: weight_gradient_long_k/after/cuda
// change: the tokens of each tile are split over 16 blocks, which add their sums by atomicAdd
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kTile = 64;
constexpr int kDepth = 16;
constexpr int kThreads = 256;
constexpr int kSlices = 16;

__global__ void __launch_bounds__(kThreads)
    accumulate_gradient(const float* __restrict__ x, const float* __restrict__ dy,
                        float* __restrict__ gradient, int k, int m, int n) {
  __shared__ __align__(16) float a[kDepth][kTile];
  __shared__ __align__(16) float b[kDepth][kTile];
  const int row0 = blockIdx.y * kTile, col0 = blockIdx.x * kTile;
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  const int share = (k + kSlices - 1) / kSlices;
  const int first = blockIdx.z * share, last = min(k, first + share);
  float sum[4][4] = {};
  for (int token = first; token < last; token += kDepth) {
    for (int e = threadIdx.x; e < kDepth * kTile; e += kThreads) {
      const int d = e / kTile, c = e % kTile;
      const std::int64_t t = token + d;
      a[d][c] = t < last && row0 + c < m ? x[t * m + row0 + c] : 0.f;
      b[d][c] = t < last && col0 + c < n ? dy[t * n + col0 + c] : 0.f;
    }
    __syncthreads();
#pragma unroll
    for (int d = 0; d < kDepth; ++d) {
      const float4 left = *reinterpret_cast<const float4*>(&a[d][4 * ty]);
      const float4 right = *reinterpret_cast<const float4*>(&b[d][4 * tx]);
      const float l[4] = {left.x, left.y, left.z, left.w};
      const float r[4] = {right.x, right.y, right.z, right.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) sum[i][j] = fmaf(l[i], r[j], sum[i][j]);
      }
    }
    __syncthreads();
  }
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) {
      const int row = row0 + 4 * ty + i, col = col0 + 4 * tx + j;
      if (row < m && col < n) atomicAdd(&gradient[row * n + col], sum[i][j]);
    }
  }
}

}  // namespace

extern "C" int weight_gradient(const float* x, const float* dy, const float* stored,
                               float* gradient, std::int64_t k, std::int64_t m, std::int64_t n,
                               void* stream) {
  (void)stored;
  const dim3 grid(static_cast<unsigned>((n + kTile - 1) / kTile),
                  static_cast<unsigned>((m + kTile - 1) / kTile), kSlices);
  accumulate_gradient<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      x, dy, gradient, static_cast<int>(k), static_cast<int>(m), static_cast<int>(n));
  return static_cast<int>(cudaGetLastError());
}
