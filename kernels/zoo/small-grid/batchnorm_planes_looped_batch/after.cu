// kernel: batchnorm_planes_looped_batch/after/cuda
// change: the loop over the batch becomes a grid dimension, 48 -> 48 x 64 blocks
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    scale_channel(const float* __restrict__ x, const float* __restrict__ scale,
                  const float* __restrict__ shift, float* __restrict__ y, int batch, int channels,
                  int pixels) {
  const int channel = blockIdx.x;
  const float factor = scale[channel];
  const float offset = shift[channel];
  const int image = blockIdx.y;
  if (image >= batch) return;
  const std::int64_t plane = (static_cast<std::int64_t>(image) * channels + channel) * pixels;
  for (int p = threadIdx.x; p < pixels; p += kThreads) {
    y[plane + p] = fmaf(x[plane + p], factor, offset);
  }
}

}  // namespace

extern "C" int batchnorm(const float* x, const float* scale, const float* shift, float* y,
                         std::int64_t batch, std::int64_t channels, std::int64_t pixels,
                         void* stream) {
  const dim3 grid(static_cast<unsigned>(channels), static_cast<unsigned>(batch));
  scale_channel<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      x, scale, shift, y, static_cast<int>(batch), static_cast<int>(channels),
      static_cast<int>(pixels));
  return static_cast<int>(cudaGetLastError());
}
