// kernel: nchw_to_nhwc_by_output/after/cuda
// change: a padded tile of 32 by 32 in shared memory, read along pixels and written along channels
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kTile = 32;
constexpr int kStep = kThreads / kTile;

__global__ void __launch_bounds__(kThreads)
    permute(const float* __restrict__ x, float* __restrict__ y, int channels, int pixels) {
  __shared__ float tile[kTile][kTile + 1];
  const int size = channels * pixels;
  const std::int64_t image = static_cast<std::int64_t>(blockIdx.z) * size;
  const int lane = threadIdx.x % kTile;
  const int first_channel = blockIdx.y * kTile;
  const int first_pixel = blockIdx.x * kTile;
  for (int r = threadIdx.x / kTile; r < kTile; r += kStep) {
    const int channel = first_channel + r;
    const int pixel = first_pixel + lane;
    if (channel < channels && pixel < pixels) {
      tile[r][lane] = x[image + channel * pixels + pixel];
    }
  }
  __syncthreads();
  for (int r = threadIdx.x / kTile; r < kTile; r += kStep) {
    const int pixel = first_pixel + r;
    const int channel = first_channel + lane;
    if (channel < channels && pixel < pixels) {
      y[image + pixel * channels + channel] = tile[lane][r];
    }
  }
}

}  // namespace

extern "C" int to_channels_last(const float* x, float* y, std::int64_t images,
                                std::int64_t channels, std::int64_t pixels, void* stream) {
  const dim3 grid(static_cast<unsigned>((pixels + kTile - 1) / kTile),
                  static_cast<unsigned>((channels + kTile - 1) / kTile),
                  static_cast<unsigned>(images));
  permute<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      x, y, static_cast<int>(channels), static_cast<int>(pixels));
  return static_cast<int>(cudaGetLastError());
}
