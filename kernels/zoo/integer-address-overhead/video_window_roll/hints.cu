// kernel: video_window_roll/hints/cuda
// change: streaming hints on what is touched once
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;

struct Shape {
  std::int64_t frames, height, width, channels;
};

struct Shift {
  std::int64_t frames, rows, columns;
};

// A thread fetches one value of the output; shapes and shifts are those of the layer.
__global__ void __launch_bounds__(kThreads)
    shift_features(const float* __restrict__ x, float* __restrict__ out, Shape shape, Shift shift,
                   std::int64_t count) {
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (index >= count) return;
  const std::int64_t channel = index % shape.channels;
  std::int64_t rest = index / shape.channels;
  const std::int64_t column = (rest % shape.width + shift.columns) % shape.width;
  rest /= shape.width;
  const std::int64_t row = (rest % shape.height + shift.rows) % shape.height;
  rest /= shape.height;
  const std::int64_t frame = (rest % shape.frames + shift.frames) % shape.frames;
  const std::int64_t sample = rest / shape.frames;
  const std::int64_t pixel =
      ((sample * shape.frames + frame) * shape.height + row) * shape.width + column;
  __stcs(out + index, __ldcs(x + pixel * shape.channels + channel));
}

}  // namespace

extern "C" int roll_windows(const float* x, float* out, std::int64_t batch, std::int64_t frames,
                            std::int64_t height, std::int64_t width, std::int64_t channels,
                            void* stream) {
  const std::int64_t count = batch * frames * height * width * channels;
  const auto blocks = static_cast<unsigned>((count + kThreads - 1) / kThreads);
  const Shape shape = {frames, height, width, channels};
  const Shift shift = {4, 3, 3};
  shift_features<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(x, out, shape, shift,
                                                                            count);
  return static_cast<int>(cudaGetLastError());
}
