// kernel: interleave_color_planes/before/cuda
// flaw: one plane after another is stored, 4 of every 16 bytes, so each sector is written four times
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kPlanes = 4;

__global__ void __launch_bounds__(kThreads)
    interleave_planes(const float* __restrict__ planes, const float* __restrict__ gain,
                      float* __restrict__ pixels, std::int64_t n) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  const int plane = blockIdx.y;
  pixels[i * kPlanes + plane] = planes[plane * n + i] * gain[plane];
}

}  // namespace

extern "C" int interleave(const float* planes, const float* gain, float* pixels, std::int64_t n,
                          void* stream) {
  const dim3 grid(static_cast<unsigned>((n + kThreads - 1) / kThreads), kPlanes);
  interleave_planes<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(planes, gain, pixels,
                                                                              n);
  return static_cast<int>(cudaGetLastError());
}
