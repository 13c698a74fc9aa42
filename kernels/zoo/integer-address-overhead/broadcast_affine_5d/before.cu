// kernel: broadcast_affine_5d/before/cuda
// flaw: the five indices of each element are found with 64-bit divisions
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    scale_and_shift(const __half* __restrict__ x, const float* __restrict__ scale,
                    const float* __restrict__ shift, const float* __restrict__ depth,
                    __half* __restrict__ y, std::int64_t b, std::int64_t c, std::int64_t d,
                    std::int64_t h, std::int64_t w) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= b * c * d * h * w) return;
  const std::int64_t column = i % w;
  std::int64_t rest = i / w;
  const std::int64_t row = rest % h;
  rest /= h;
  const std::int64_t slice = rest % d;
  rest /= d;
  const std::int64_t channel = rest % c;
  const std::int64_t item = rest / c;
  const float offset = shift[item * h + row] + depth[slice];
  y[i] = __float2half(__half2float(x[i]) * scale[channel * w + column] + offset);
}

}  // namespace

extern "C" int broadcast_affine(const __half* x, const float* scale, const float* shift,
                                const float* depth, __half* y, std::int64_t b, std::int64_t c,
                                std::int64_t d, std::int64_t h, std::int64_t w, void* stream) {
  const int blocks = static_cast<int>((b * c * d * h * w + kThreads - 1) / kThreads);
  scale_and_shift<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      x, scale, shift, depth, y, b, c, d, h, w);
  return static_cast<int>(cudaGetLastError());
}
