// kernel: upsample_features_nhwc/after/cuda
// change: a grid over rows and columns instead of divisions of a flat index of 64 bits
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kLanes = 32;  // along the channels
constexpr int kPixels = 8;

__global__ void __launch_bounds__(kLanes * kPixels)
    resize_features(const float* __restrict__ in, float* __restrict__ out, std::int64_t h,
                    std::int64_t w, std::int64_t out_h, std::int64_t out_w,
                    std::int64_t channels) {
  const int column = blockIdx.x * kPixels + threadIdx.y, row = blockIdx.y;
  if (column >= out_w) return;
  const float step_y = static_cast<float>(h) / out_h, step_x = static_cast<float>(w) / out_w;
  const float y = fmaxf((row + 0.5f) * step_y - 0.5f, 0.0f);
  const float x = fmaxf((column + 0.5f) * step_x - 0.5f, 0.0f);
  const std::int64_t y0 = min(static_cast<std::int64_t>(y), h - 1), y1 = min(y0 + 1, h - 1);
  const std::int64_t x0 = min(static_cast<std::int64_t>(x), w - 1), x1 = min(x0 + 1, w - 1);
  const float dy = y - y0, dx = x - x0;
  const float* upper = in + y0 * w * channels;
  const float* lower = in + y1 * w * channels;
  float* pixel = out + (row * out_w + column) * channels;
  for (int channel = threadIdx.x; channel < channels; channel += kLanes) {
    const float top = upper[x0 * channels + channel] * (1.0f - dx) +
                      upper[x1 * channels + channel] * dx;
    const float bottom = lower[x0 * channels + channel] * (1.0f - dx) +
                         lower[x1 * channels + channel] * dx;
    pixel[channel] = top * (1.0f - dy) + bottom * dy;
  }
}

}  // namespace

extern "C" int resize(const float* in, std::int64_t out_h, std::int64_t out_w, float* out,
                      std::int64_t h, std::int64_t w, std::int64_t channels, void* stream) {
  const dim3 blocks((out_w + kPixels - 1) / kPixels, out_h);
  resize_features<<<blocks, dim3(kLanes, kPixels), 0, static_cast<cudaStream_t>(stream)>>>(
      in, out, h, w, out_h, out_w, channels);
  return static_cast<int>(cudaGetLastError());
}
