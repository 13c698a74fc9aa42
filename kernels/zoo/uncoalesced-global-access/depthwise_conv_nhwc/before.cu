// kernel: depthwise_conv_nhwc/before/cuda
// flaw: neighbouring threads are neighbours in x, one pixel of all channels apart in memory
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    depthwise_conv(const __half* __restrict__ in, const __half* __restrict__ weights,
                   __half* __restrict__ out, int n, int height, int width, int channels) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= n * height * width * channels) return;
  const int x = i % width;
  const int y = i / width % height;
  const int c = i / (width * height) % channels;
  const int image = i / (width * height * channels);
  float sum = 0.0f;
#pragma unroll
  for (int ky = 0; ky < 3; ++ky) {
#pragma unroll
    for (int kx = 0; kx < 3; ++kx) {
      const int yy = y + ky - 1;
      const int xx = x + kx - 1;
      if (yy >= 0 && yy < height && xx >= 0 && xx < width) {
        const int at = ((image * height + yy) * width + xx) * channels + c;
        sum += __half2float(in[at]) * __half2float(weights[(ky * 3 + kx) * channels + c]);
      }
    }
  }
  out[((image * height + y) * width + x) * channels + c] = __float2half(sum);
}

}  // namespace

extern "C" int depthwise_conv_nhwc(const __half* in, const __half* weights, __half* out,
                                   std::int64_t n, std::int64_t height, std::int64_t width,
                                   std::int64_t channels, void* stream) {
  const std::int64_t count = n * height * width * channels;
  const auto blocks = static_cast<unsigned>((count + kThreads - 1) / kThreads);
  depthwise_conv<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      in, weights, out, static_cast<int>(n), static_cast<int>(height), static_cast<int>(width),
      static_cast<int>(channels));
  return static_cast<int>(cudaGetLastError());
}
