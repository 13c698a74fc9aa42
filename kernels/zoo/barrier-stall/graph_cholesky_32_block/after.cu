// kernel: graph_cholesky_32_block/after/cuda
// change: a warp factors a matrix, a row in the registers of each lane
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kEdge = 32;
constexpr int kWarps = 4;

__global__ void __launch_bounds__(kWarps * 32)
    factor_blocks(const float* __restrict__ weights, float* __restrict__ factors, int matrices) {
  __shared__ float tiles[kWarps][kEdge][kEdge + 1];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int matrix = blockIdx.x * kWarps + warp;
  if (matrix >= matrices) return;
  float(*a)[kEdge + 1] = tiles[warp];
  const std::int64_t at = static_cast<std::int64_t>(matrix) * kEdge * kEdge + lane;
#pragma unroll
  for (int i = 0; i < kEdge; ++i) a[i][lane] = weights[at + i * kEdge];
  __syncwarp();
  float row[kEdge];
  float degree = 0.0f;
#pragma unroll
  for (int j = 0; j < kEdge; ++j) {
    const float weight = j == lane ? 0.0f : a[max(lane, j)][min(lane, j)];
    degree += fabsf(weight);
    row[j] = -weight;
  }
#pragma unroll
  for (int j = 0; j < kEdge; ++j) row[j] = j == lane ? 1.0f + degree : row[j];
  __syncwarp();
#pragma unroll
  for (int k = 0; k < kEdge; ++k) {
    const float pivot = sqrtf(__shfl_sync(0xffffffffu, row[k], k));
    row[k] = lane == k ? pivot : row[k] / pivot;
#pragma unroll
    for (int j = k + 1; j < kEdge; ++j) row[j] -= row[k] * __shfl_sync(0xffffffffu, row[k], j);
  }
#pragma unroll
  for (int j = 0; j < kEdge; ++j) a[lane][j] = j <= lane ? row[j] : 0.0f;
  __syncwarp();
#pragma unroll
  for (int i = 0; i < kEdge; ++i) factors[at + i * kEdge] = a[i][lane];
}

}  // namespace

extern "C" int factor(const float* weights, float* factors, std::int64_t matrices, void* stream) {
  const unsigned blocks = static_cast<unsigned>((matrices + kWarps - 1) / kWarps);
  factor_blocks<<<blocks, kWarps * 32, 0, static_cast<cudaStream_t>(stream)>>>(
      weights, factors, static_cast<int>(matrices));
  return static_cast<int>(cudaGetLastError());
}
