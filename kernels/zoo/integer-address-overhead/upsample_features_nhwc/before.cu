// kernel: upsample_features_nhwc/before/cuda
// computes: a bilinear resize of a feature map with channels last
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    resize_features(const float* __restrict__ in, float* __restrict__ out, std::int64_t h,
                    std::int64_t w, std::int64_t out_h, std::int64_t out_w,
                    std::int64_t channels) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= out_h * out_w * channels) return;
  const std::int64_t channel = i % channels;
  const std::int64_t column = i / channels % out_w;
  const std::int64_t row = i / (channels * out_w);
  const float step_y = static_cast<float>(h) / out_h, step_x = static_cast<float>(w) / out_w;
  const float y = fmaxf((row + 0.5f) * step_y - 0.5f, 0.0f);
  const float x = fmaxf((column + 0.5f) * step_x - 0.5f, 0.0f);
  const std::int64_t y0 = min(static_cast<std::int64_t>(y), h - 1), y1 = min(y0 + 1, h - 1);
  const std::int64_t x0 = min(static_cast<std::int64_t>(x), w - 1), x1 = min(x0 + 1, w - 1);
  const float dy = y - y0, dx = x - x0;
  const float* upper = in + y0 * w * channels + channel;
  const float* lower = in + y1 * w * channels + channel;
  const float top = upper[x0 * channels] * (1.0f - dx) + upper[x1 * channels] * dx;
  const float bottom = lower[x0 * channels] * (1.0f - dx) + lower[x1 * channels] * dx;
  out[i] = top * (1.0f - dy) + bottom * dy;
}

}  // namespace

extern "C" int resize(const float* in, std::int64_t out_h, std::int64_t out_w, float* out,
                      std::int64_t h, std::int64_t w, std::int64_t channels, void* stream) {
  const std::int64_t count = out_h * out_w * channels;
  const unsigned blocks = static_cast<unsigned>((count + kThreads - 1) / kThreads);
  resize_features<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(in, out, h, w, out_h,
                                                                              out_w, channels);
  return static_cast<int>(cudaGetLastError());
}
