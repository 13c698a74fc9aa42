// kernel: filter_7x7_from_global/after/cuda
// change: a block of 32 x 8 outputs stages its 38 x 14 pixels in shared memory
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kWidth = 32;
constexpr int kHeight = 8;
constexpr int kTaps = 7;
constexpr int kThreads = kWidth * kHeight;
constexpr int kTileWidth = kWidth + kTaps - 1;
constexpr int kTileHeight = kHeight + kTaps - 1;

__global__ void __launch_bounds__(kThreads)
    filter_pixels(const float* __restrict__ image, const float* __restrict__ weights,
                  float* __restrict__ out, int h, int w, int ph, int pw) {
  __shared__ __align__(16) float taps[kTaps * kTaps];
  __shared__ float tile[kTileHeight][kTileWidth];
  const int tx = threadIdx.x % kWidth, ty = threadIdx.x / kWidth;
  const int x = blockIdx.x * kWidth + tx, y = blockIdx.y * kHeight + ty;
  if (threadIdx.x < kTaps * kTaps) taps[threadIdx.x] = weights[threadIdx.x];
  for (int i = threadIdx.x; i < kTileHeight * kTileWidth; i += kThreads) {
    const int r = i / kTileWidth, c = i % kTileWidth;
    const int from_y = blockIdx.y * kHeight + r, from_x = blockIdx.x * kWidth + c;
    tile[r][c] =
        from_y < ph && from_x < pw ? image[static_cast<std::int64_t>(from_y) * pw + from_x] : 0.0f;
  }
  __syncthreads();
  if (x >= w || y >= h) return;
  float sum = 0.0f;
#pragma unroll
  for (int dy = 0; dy < kTaps; ++dy) {
#pragma unroll
    for (int dx = 0; dx < kTaps; ++dx) {
      sum += taps[dy * kTaps + dx] * tile[ty + dy][tx + dx];
    }
  }
  out[static_cast<std::int64_t>(y) * w + x] = sum;
}

}  // namespace

extern "C" int filter_image(const float* image, const float* weights, float* out, std::int64_t h,
                            std::int64_t w, std::int64_t ph, std::int64_t pw, void* stream) {
  const dim3 grid((w + kWidth - 1) / kWidth, (h + kHeight - 1) / kHeight);
  filter_pixels<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      image, weights, out, static_cast<int>(h), static_cast<int>(w), static_cast<int>(ph),
      static_cast<int>(pw));
  return static_cast<int>(cudaGetLastError());
}
