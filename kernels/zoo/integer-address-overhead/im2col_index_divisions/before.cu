// kernel: im2col_index_divisions/before/cuda
// flaw: each element of the columns is found from its flat index with run-time divisions
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
  const int tap_x = i / (width * height) % taps;
  const int tap_y = i / (width * height * taps) % taps;
  const int plane = i / (width * height * taps * taps);
  columns[i] = read(image + plane * height * width, y + tap_y - padding, x + tap_x - padding,
                    height, width);
}

}  // namespace

extern "C" int im2col(const __half* image, __half* columns, std::int64_t batch,
                      std::int64_t channels, std::int64_t height, std::int64_t width,
                      void* stream) {
  constexpr int kTaps = 3, kPadding = 1;
  const int size = static_cast<int>(batch * channels * height * width) * kTaps * kTaps;
  const int blocks = (size + kThreads - 1) / kThreads;
  expand<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      image, columns, size, static_cast<int>(height), static_cast<int>(width), kTaps, kPadding);
  return static_cast<int>(cudaGetLastError());
}
