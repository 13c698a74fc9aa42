// kernel: linear_layer_tiled/after/cuda
// change: rows of 33 words instead of 32 in the tile of weights
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kTile = 32;

__global__ void __launch_bounds__(kTile* kTile)
    linear_tile(const float* __restrict__ x, const float* __restrict__ weight,
                const float* __restrict__ bias, float* __restrict__ y, int m, int n, int k) {
  __shared__ float inputs[kTile][kTile];
  __shared__ float weights[kTile][kTile + 1];
  const int tx = threadIdx.x;
  const int ty = threadIdx.y;
  const int row = blockIdx.y * kTile + ty;
  const int col = blockIdx.x * kTile + tx;
  const int weight_row = blockIdx.x * kTile + ty;
  float sum = 0.0f;
  for (int start = 0; start < k; start += kTile) {
    const bool inside = start + tx < k;
    inputs[ty][tx] = inside && row < m ? x[row * k + start + tx] : 0.0f;
    weights[ty][tx] = inside && weight_row < n ? weight[weight_row * k + start + tx] : 0.0f;
    __syncthreads();
    for (int i = 0; i < kTile; ++i) sum += inputs[ty][i] * weights[tx][i];
    __syncthreads();
  }
  if (row < m && col < n) y[row * n + col] = sum + bias[col];
}

}  // namespace

extern "C" int linear(const float* x, const float* weight, const float* bias, float* y,
                      std::int64_t m, std::int64_t n, std::int64_t k, void* stream) {
  const dim3 grid(static_cast<unsigned>((n + kTile - 1) / kTile),
                  static_cast<unsigned>((m + kTile - 1) / kTile));
  linear_tile<<<grid, dim3(kTile, kTile), 0, static_cast<cudaStream_t>(stream)>>>(
      x, weight, bias, y, static_cast<int>(m), static_cast<int>(n), static_cast<int>(k));
  return static_cast<int>(cudaGetLastError());
}
