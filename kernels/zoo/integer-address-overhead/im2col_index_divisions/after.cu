// kernel: im2col_index_divisions/after/cuda
// change: a thread takes one pixel and steps through its taps with nested loops
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;

__device__ __half read(const __half* plane, int y, int x, int height, int width) {
  const bool is_inside = y >= 0 && y < height && x >= 0 && x < width;
  return is_inside ? plane[y * width + x] : __float2half(0.0f);
}

__global__ void __launch_bounds__(kThreads)
    expand(const __half* __restrict__ image, __half* __restrict__ columns, int size, int height,
           int width, int taps, int padding) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= size) return;
  const int x = i % width;
  const int y = i / width % height;
  const int plane = i / (width * height);
  image += plane * height * width;
  columns += (plane * taps * taps * height + y) * width + x;
  for (int tap_y = 0; tap_y < taps; ++tap_y) {
    for (int tap_x = 0; tap_x < taps; ++tap_x) {
      *columns = read(image, y + tap_y - padding, x + tap_x - padding, height, width);
      columns += height * width;
    }
  }
}

}  // namespace

extern "C" int im2col(const __half* image, __half* columns, std::int64_t batch,
                      std::int64_t channels, std::int64_t height, std::int64_t width,
                      void* stream) {
  constexpr int kTaps = 3, kPadding = 1;
  const int size = static_cast<int>(batch * channels * height * width);
  const int blocks = (size + kThreads - 1) / kThreads;
  expand<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      image, columns, size, static_cast<int>(height), static_cast<int>(width), kTaps, kPadding);
  return static_cast<int>(cudaGetLastError());
}
