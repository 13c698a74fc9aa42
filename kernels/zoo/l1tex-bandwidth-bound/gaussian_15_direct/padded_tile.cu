// kernel: gaussian_15_direct/padded-tile/cuda
// change: rows of the tile in shared memory have 47 elements instead of 46
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kWidth = 32;
constexpr int kRows = 8;  // of threads
constexpr int kHeight = 32;
constexpr int kRadius = 7;
constexpr int kTaps = 2 * kRadius + 1;
constexpr int kTileWidth = kWidth + 2 * kRadius;
constexpr int kTileHeight = kHeight + 2 * kRadius;

__global__ void __launch_bounds__(kWidth * kRows)
    blur_tile(const float* __restrict__ image, const float* __restrict__ weights,
              float* __restrict__ blurred, int h, int w) {
  __shared__ float tile[kTileHeight][kTileWidth + 1];
  const int left = blockIdx.x * kWidth - kRadius, top = blockIdx.y * kHeight - kRadius;
  for (int row = threadIdx.y; row < kTileHeight; row += kRows) {
    for (int column = threadIdx.x; column < kTileWidth; column += kWidth) {
      const int y = top + row, x = left + column;
      const bool is_inside = y >= 0 && y < h && x >= 0 && x < w;
      tile[row][column] = is_inside ? image[static_cast<std::int64_t>(y) * w + x] : 0.0f;
    }
  }
  float weight[kTaps];
#pragma unroll
  for (int k = 0; k < kTaps; ++k) weight[k] = weights[k];
  __syncthreads();

  const int x = blockIdx.x * kWidth + threadIdx.x;
  for (int row = threadIdx.y; row < kHeight; row += kRows) {
    const int y = blockIdx.y * kHeight + row;
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kTaps; ++i) {
      float along = 0.0f;
#pragma unroll
      for (int k = 0; k < kTaps; ++k) along += weight[k] * tile[row + i][threadIdx.x + k];
      sum += weight[i] * along;
    }
    if (x < w && y < h) blurred[static_cast<std::int64_t>(y) * w + x] = sum;
  }
}

}  // namespace

extern "C" int blur(const float* image, const float* weights, float* blurred, std::int64_t h,
                    std::int64_t w, void* stream) {
  const dim3 grid((w + kWidth - 1) / kWidth, (h + kHeight - 1) / kHeight);
  blur_tile<<<grid, dim3(kWidth, kRows), 0, static_cast<cudaStream_t>(stream)>>>(
      image, weights, blurred, static_cast<int>(h), static_cast<int>(w));
  return static_cast<int>(cudaGetLastError());
}
