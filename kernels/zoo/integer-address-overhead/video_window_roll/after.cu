// kernel: video_window_roll/after/cuda
// change: indices have 32 bits and no sign; x has fewer than 2^32 values
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;

struct Shape {
  std::uint32_t frames, height, width, channels;
};

struct Shift {
  std::uint32_t frames, rows, columns;
};

// A thread fetches one value of the output; shapes and shifts are those of the layer.
__global__ void __launch_bounds__(kThreads)
    shift_features(const float* __restrict__ x, float* __restrict__ out, Shape shape, Shift shift,
                   std::uint32_t count) {
  const std::uint32_t index = blockIdx.x * kThreads + threadIdx.x;
  if (index >= count) return;
  const std::uint32_t channel = index % shape.channels;
  std::uint32_t rest = index / shape.channels;
  const std::uint32_t column = (rest % shape.width + shift.columns) % shape.width;
  rest /= shape.width;
  const std::uint32_t row = (rest % shape.height + shift.rows) % shape.height;
  rest /= shape.height;
  const std::uint32_t frame = (rest % shape.frames + shift.frames) % shape.frames;
  const std::uint32_t sample = rest / shape.frames;
  const std::uint32_t pixel =
      ((sample * shape.frames + frame) * shape.height + row) * shape.width + column;
  out[index] = x[pixel * shape.channels + channel];
}

}  // namespace

extern "C" int roll_windows(const float* x, float* out, std::int64_t batch, std::int64_t frames,
                            std::int64_t height, std::int64_t width, std::int64_t channels,
                            void* stream) {
  const std::int64_t count = batch * frames * height * width * channels;
  const auto blocks = static_cast<unsigned>((count + kThreads - 1) / kThreads);
  const Shape shape = {static_cast<std::uint32_t>(frames), static_cast<std::uint32_t>(height),
                       static_cast<std::uint32_t>(width), static_cast<std::uint32_t>(channels)};
  const Shift shift = {4, 3, 3};
  shift_features<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      x, out, shape, shift, static_cast<std::uint32_t>(count));
  return static_cast<int>(cudaGetLastError());
}
