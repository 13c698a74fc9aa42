// kernel: frozen_norm_relu_nhwc/before/cuda
// scale and shift of a channel are read from global memory for every element
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 132 * 8;
constexpr int kChannels = 512;
constexpr int kVectors = kChannels / 4;

__device__ float scaled_relu(float x, float scale, float shift) {
  return fmaxf(x * scale + shift, 0.0f);
}

__global__ void __launch_bounds__(kThreads)
    frozen_norm_relu(const float4* __restrict__ x, const float4* __restrict__ scale,
                     const float4* __restrict__ shift, float4* __restrict__ y, std::int64_t n) {
  const std::int64_t stride = static_cast<std::int64_t>(kBlocks) * kThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < n;
       i += stride) {
    const int channel = static_cast<int>(i % kVectors);
    const float4 a = scale[channel];
    const float4 b = shift[channel];
    const float4 v = x[i];
    y[i] = make_float4(scaled_relu(v.x, a.x, b.x), scaled_relu(v.y, a.y, b.y),
                       scaled_relu(v.z, a.z, b.z), scaled_relu(v.w, a.w, b.w));
  }
}

}  // namespace

extern "C" int norm_relu(const float* x, const float* scale, const float* shift, float* y,
                         std::int64_t positions, void* stream) {
  frozen_norm_relu<<<kBlocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      reinterpret_cast<const float4*>(x), reinterpret_cast<const float4*>(scale),
      reinterpret_cast<const float4*>(shift), reinterpret_cast<float4*>(y), positions * kVectors);
  return static_cast<int>(cudaGetLastError());
}
