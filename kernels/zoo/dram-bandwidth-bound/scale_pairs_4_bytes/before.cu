// kernel: scale_pairs_4_bytes/before/cuda
// form: coalesced accesses of 4 bytes, 4 in flight for each array
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
      static_cast<std::int64_t>(blockIdx.x) * kThreads * kItems + threadIdx.x;
  __nv_bfloat162 values[kItems];
#pragma unroll
  for (int k = 0; k < kItems; ++k) values[k] = x[first + k * kThreads];
#pragma unroll
  for (int k = 0; k < kItems; ++k) y[first + k * kThreads] = scaled(values[k], *factor);
}

}  // namespace

extern "C" int scale_pairs(const __nv_bfloat162* x, const float* factor, __nv_bfloat162* y,
                           std::int64_t n, void* stream) {
  const unsigned blocks = static_cast<unsigned>(n / (kThreads * kItems));
  update<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(x, factor, y);
  return static_cast<int>(cudaGetLastError());
}
