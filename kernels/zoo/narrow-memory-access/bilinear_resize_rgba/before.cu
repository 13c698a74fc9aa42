// kernel: bilinear_resize_rgba/before/cuda
// flaw: each thread loads and stores single bytes, and finds the position of its pixel again
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kChannels = 4;

__device__ int source_position(int i, int step) { return max(i * step + step / 2 - 32768, 0); }

__global__ void __launch_bounds__(kThreads)
    resize(const std::uint8_t* __restrict__ in, std::uint8_t* __restrict__ out, int in_height,
           int in_width, int out_height, int out_width) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= out_width * kChannels) return;
  const int x = i / kChannels;
  const int c = i % kChannels;
  const int y = blockIdx.y;
  const int px = source_position(x, (in_width << 16) / out_width);
  const int py = source_position(y, (in_height << 16) / out_height);
  const int x0 = min(px >> 16, in_width - 1);
  const int y0 = min(py >> 16, in_height - 1);
  const int x1 = min(x0 + 1, in_width - 1);
  const int y1 = min(y0 + 1, in_height - 1);
  const int fx = px >> 8 & 255;
  const int fy = py >> 8 & 255;
  const std::uint8_t* top = in + (blockIdx.z * in_height + y0) * in_width * kChannels;
  const std::uint8_t* bottom = in + (blockIdx.z * in_height + y1) * in_width * kChannels;
  const int a = top[x0 * kChannels + c] * (256 - fx) + top[x1 * kChannels + c] * fx;
  const int b = bottom[x0 * kChannels + c] * (256 - fx) + bottom[x1 * kChannels + c] * fx;
  out[(blockIdx.z * out_height + y) * out_width * kChannels + i] =
      static_cast<std::uint8_t>((a * (256 - fy) + b * fy + 32768) >> 16);
}

}  // namespace

extern "C" int bilinear_resize(const std::uint8_t* in, std::uint8_t* out, std::int64_t n,
                               std::int64_t in_height, std::int64_t in_width,
                               std::int64_t out_height, std::int64_t out_width, void* stream) {
  const dim3 blocks(static_cast<unsigned>((out_width * kChannels + kThreads - 1) / kThreads),
                    static_cast<unsigned>(out_height), static_cast<unsigned>(n));
  resize<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      in, out, static_cast<int>(in_height), static_cast<int>(in_width),
      static_cast<int>(out_height), static_cast<int>(out_width));
  return static_cast<int>(cudaGetLastError());
}
