// kernel: scale_pairs_4_bytes/after/cuda
// change: 16 bytes for each access instead of 4; each thread still has 4 elements
#include <cuda_runtime.h>
#include <cuda_bf16.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kItems = 4;

__device__ __nv_bfloat162 scaled(__nv_bfloat162 pair, float factor) {
  const float2 wide = __bfloat1622float2(pair);
  return __floats2bfloat162_rn(wide.x * factor, wide.y * factor);
}

// n is a multiple of 1024.
__global__ void __launch_bounds__(kThreads)
    update(const __nv_bfloat162* __restrict__ x, const float* __restrict__ factor,
           __nv_bfloat162* __restrict__ y) {
  const std::int64_t first =
      (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kItems;
  float4 packed = *reinterpret_cast<const float4*>(x + first);
  auto* values = reinterpret_cast<__nv_bfloat162*>(&packed);
#pragma unroll
  for (int k = 0; k < kItems; ++k) values[k] = scaled(values[k], *factor);
  *reinterpret_cast<float4*>(y + first) = packed;
}

}  // namespace

extern "C" int scale_pairs(const __nv_bfloat162* x, const float* factor, __nv_bfloat162* y,
                           std::int64_t n, void* stream) {
  const unsigned blocks = static_cast<unsigned>(n / (kThreads * kItems));
  update<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(x, factor, y);
  return static_cast<int>(cudaGetLastError());
}
