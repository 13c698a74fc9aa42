// kernel: brighten_bytes_few_warps/after/cuda
// change: each thread loads and stores 16 pixels at a time instead of 1
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 132;

__device__ unsigned adjust(unsigned pixel, unsigned gain, unsigned offset) {
  return min(255u, (pixel * gain >> 6) + offset);
}

__device__ unsigned adjust_four(unsigned pixels, unsigned gain, unsigned offset) {
  unsigned result = 0;
#pragma unroll
  for (int k = 0; k < 32; k += 8) result |= adjust(pixels >> k & 0xff, gain, offset) << k;
  return result;
}

__global__ void __launch_bounds__(kThreads)
    apply_curve(const std::uint8_t* __restrict__ pixels, const int* __restrict__ curve,
                std::uint8_t* __restrict__ out, std::int64_t n) {
  const unsigned gain = 64 + curve[0], offset = curve[1];
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  constexpr std::int64_t kStride = static_cast<std::int64_t>(kBlocks) * kThreads;
  const std::int64_t wide = n / 16;
  for (std::int64_t i = first; i < wide; i += kStride) {
    uint4 v = reinterpret_cast<const uint4*>(pixels)[i];
    v.x = adjust_four(v.x, gain, offset);
    v.y = adjust_four(v.y, gain, offset);
    v.z = adjust_four(v.z, gain, offset);
    v.w = adjust_four(v.w, gain, offset);
    reinterpret_cast<uint4*>(out)[i] = v;
  }
  for (std::int64_t i = wide * 16 + first; i < n; i += kStride) {
    out[i] = static_cast<std::uint8_t>(adjust(pixels[i], gain, offset));
  }
}

}  // namespace

extern "C" int brighten(const std::uint8_t* pixels, const int* curve, std::uint8_t* out,
                        std::int64_t n, void* stream) {
  apply_curve<<<kBlocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(pixels, curve, out, n);
  return static_cast<int>(cudaGetLastError());
}
