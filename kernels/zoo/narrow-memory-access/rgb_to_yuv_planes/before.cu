// kernel: rgb_to_yuv_planes/before/cuda
// flaw: each thread converts one pixel with loads and stores of one byte
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;

struct Yuv {
  std::uint8_t y, u, v;
};

/// BT.601 in fixed point with 8 fractional bits, full range.
__device__ Yuv convert(int r, int g, int b) {
  const int y = (77 * r + 150 * g + 29 * b + 128) >> 8;
  const int u = ((-43 * r - 85 * g + 128 * b + 128) >> 8) + 128;
  const int v = ((128 * r - 107 * g - 21 * b + 128) >> 8) + 128;
  return {static_cast<std::uint8_t>(y), static_cast<std::uint8_t>(min(u, 255)),
          static_cast<std::uint8_t>(min(v, 255))};
}

__global__ void __launch_bounds__(kThreads)
    rgb_to_planes(const std::uint8_t* __restrict__ rgb, std::uint8_t* __restrict__ y,
                  std::uint8_t* __restrict__ u, std::uint8_t* __restrict__ v, std::int64_t pixels) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= pixels) return;
  const Yuv p = convert(rgb[3 * i], rgb[3 * i + 1], rgb[3 * i + 2]);
  y[i] = p.y;
  u[i] = p.u;
  v[i] = p.v;
}

}  // namespace

extern "C" int rgb_to_yuv(const std::uint8_t* rgb, std::uint8_t* y, std::uint8_t* u,
                          std::uint8_t* v, std::int64_t pixels, void* stream) {
  const std::int64_t blocks = (pixels + kThreads - 1) / kThreads;
  rgb_to_planes<<<static_cast<unsigned>(blocks), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      rgb, y, u, v, pixels);
  return static_cast<int>(cudaGetLastError());
}
