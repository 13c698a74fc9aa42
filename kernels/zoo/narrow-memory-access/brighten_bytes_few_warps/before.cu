// kernel: brighten_bytes_few_warps/before/cuda
// flaw: one byte a lane, and too few warps to keep many loads in flight
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 132;

__device__ unsigned adjust(unsigned pixel, unsigned gain, unsigned offset) {
  return min(255u, (pixel * gain >> 6) + offset);
}

__global__ void __launch_bounds__(kThreads)
    apply_curve(const std::uint8_t* __restrict__ pixels, const int* __restrict__ curve,
                std::uint8_t* __restrict__ out, std::int64_t n) {
  const unsigned gain = 64 + curve[0], offset = curve[1];
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  constexpr std::int64_t kStride = static_cast<std::int64_t>(kBlocks) * kThreads;
  for (std::int64_t i = first; i < n; i += kStride) {
    out[i] = static_cast<std::uint8_t>(adjust(pixels[i], gain, offset));
  }
}

}  // namespace

extern "C" int brighten(const std::uint8_t* pixels, const int* curve, std::uint8_t* out,
                        std::int64_t n, void* stream) {
  apply_curve<<<kBlocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(pixels, curve, out, n);
  return static_cast<int>(cudaGetLastError());
}
