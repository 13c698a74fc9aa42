// kernel: batchnorm_planes_looped_batch/before/cuda
// flaw: 48 channels make 48 blocks, each loops over all images
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
  for (int image = 0; image < batch; ++image) {
    const std::int64_t plane = (static_cast<std::int64_t>(image) * channels + channel) * pixels;
    for (int p = threadIdx.x; p < pixels; p += kThreads) {
      y[plane + p] = fmaf(x[plane + p], factor, offset);
    }
  }
}

}  // namespace

extern "C" int batchnorm(const float* x, const float* scale, const float* shift, float* y,
                         std::int64_t batch, std::int64_t channels, std::int64_t pixels,
                         void* stream) {
  const dim3 grid(static_cast<unsigned>(channels));
  scale_channel<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      x, scale, shift, y, static_cast<int>(batch), static_cast<int>(channels),
      static_cast<int>(pixels));
  return static_cast<int>(cudaGetLastError());
}
