// kernel: image_contrast_bytes/before/cuda
// flaw: each thread moves one byte
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreadsX = 32;
constexpr int kThreadsY = 8;
constexpr int kPixels = 1;

__device__ std::uint8_t adjust_pixel(std::uint8_t pixel, int gain, int offset) {
  return static_cast<std::uint8_t>(min(max((pixel * gain + offset) >> 8, 0), 255));
}

__global__ void __launch_bounds__(kThreadsX* kThreadsY)
    adjust_contrast(const std::uint8_t* __restrict__ image, std::uint8_t* __restrict__ out,
                    int gain, int offset, int height, int width) {
  const int x = (blockIdx.x * kThreadsX + threadIdx.x) * kPixels;
  const int y = blockIdx.y * kThreadsY + threadIdx.y;
  if (x >= width || y >= height) return;
  const int i = y * width + x;
  out[i] = adjust_pixel(image[i], gain, offset);
}

}  // namespace

extern "C" int adjust(const std::uint8_t* image, std::int64_t gain, std::int64_t offset,
                      std::uint8_t* out, std::int64_t height, std::int64_t width, void* stream) {
  constexpr int kBlockWidth = kThreadsX * kPixels;
  const dim3 grid(static_cast<unsigned>((width + kBlockWidth - 1) / kBlockWidth),
                  static_cast<unsigned>((height + kThreadsY - 1) / kThreadsY));
  adjust_contrast<<<grid, dim3(kThreadsX, kThreadsY), 0, static_cast<cudaStream_t>(stream)>>>(
      image, out, static_cast<int>(gain), static_cast<int>(offset), static_cast<int>(height),
      static_cast<int>(width));
  return static_cast<int>(cudaGetLastError());
}
