// kernel: cross_bilateral_weights/after/cuda
// change: the exponents are added, and one exponential gives the weight
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kTileX = 32;
constexpr int kTileY = 16;
constexpr int kRadius = 4;
constexpr int kWidth = kTileX + 2 * kRadius;
constexpr int kHeight = kTileY + 2 * kRadius;
constexpr int kThreads = kTileX * kTileY;
constexpr float kValueScale = 2.9f, kDepthScale = 3.6f, kAlbedoScale = 2.4f;

__device__ void stage(float (&tile)[kHeight][kWidth], const float* plane, float scale, int rows,
                      int cols) {
  for (int i = threadIdx.y * kTileX + threadIdx.x; i < kHeight * kWidth; i += kThreads) {
    const int y = static_cast<int>(blockIdx.y) * kTileY + i / kWidth - kRadius;
    const int x = static_cast<int>(blockIdx.x) * kTileX + i % kWidth - kRadius;
    const bool is_inside = y >= 0 && y < rows && x >= 0 && x < cols;
    tile[i / kWidth][i % kWidth] =
        is_inside ? scale * plane[static_cast<std::int64_t>(y) * cols + x] : 0.0f;
  }
}

__device__ float weigh(float value, float depth, float albedo) {
  return exp2f(-(value * value + depth * depth + albedo * albedo));
}

__global__ void __launch_bounds__(kThreads)
    filter(const float* __restrict__ image, const float* __restrict__ depth,
           const float* __restrict__ albedo, float* __restrict__ result, int rows, int cols) {
  __shared__ float values[kHeight][kWidth], depths[kHeight][kWidth], albedos[kHeight][kWidth];
  stage(values, image, kValueScale, rows, cols);
  stage(depths, depth, kDepthScale, rows, cols);
  stage(albedos, albedo, kAlbedoScale, rows, cols);
  __syncthreads();
  const int x = threadIdx.x, y = threadIdx.y;
  const float value = values[y + kRadius][x + kRadius];
  const float own_depth = depths[y + kRadius][x + kRadius];
  const float own_albedo = albedos[y + kRadius][x + kRadius];
  float total = 0.0f, weights = 0.0f;
  for (int dy = 0; dy <= 2 * kRadius; ++dy) {
#pragma unroll
    for (int dx = 0; dx <= 2 * kRadius; ++dx) {
      const float tap = values[y + dy][x + dx];
      const float weight = weigh(tap - value, depths[y + dy][x + dx] - own_depth,
                                 albedos[y + dy][x + dx] - own_albedo);
      total += weight * tap;
      weights += weight;
    }
  }
  const int column = blockIdx.x * kTileX + x, row = blockIdx.y * kTileY + y;
  if (column < cols && row < rows) {
    result[static_cast<std::int64_t>(row) * cols + column] = total / (kValueScale * weights);
  }
}

}  // namespace

extern "C" int denoise(const float* image, const float* depth, const float* albedo, float* result,
                       std::int64_t rows, std::int64_t cols, void* stream) {
  const dim3 blocks(static_cast<int>((cols + kTileX - 1) / kTileX),
                    static_cast<int>((rows + kTileY - 1) / kTileY));
  filter<<<blocks, dim3(kTileX, kTileY), 0, static_cast<cudaStream_t>(stream)>>>(
      image, depth, albedo, result, static_cast<int>(rows), static_cast<int>(cols));
  return static_cast<int>(cudaGetLastError());
}
