// kernel: nchw_to_nhwc_by_output/before/cuda
// flaw: neighbouring threads read neighbouring channels, a whole image plane apart
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    permute(const float* __restrict__ x, float* __restrict__ y, int channels, int pixels) {
  const int size = channels * pixels;
  const std::int64_t image = static_cast<std::int64_t>(blockIdx.z) * size;
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= size) return;
  const int pixel = i / channels;
  const int channel = i - pixel * channels;
  y[image + i] = x[image + channel * pixels + pixel];
}

}  // namespace

extern "C" int to_channels_last(const float* x, float* y, std::int64_t images,
                                std::int64_t channels, std::int64_t pixels, void* stream) {
  const int blocks = static_cast<int>((channels * pixels + kThreads - 1) / kThreads);
  const dim3 grid(blocks, 1, static_cast<unsigned>(images));
  permute<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      x, y, static_cast<int>(channels), static_cast<int>(pixels));
  return static_cast<int>(cudaGetLastError());
}
