// kernel: kv_pages_int8_scales/after/cuda
// change: the 2 KB of a page and head are turned in shared memory, and each thread stores 4 bytes
// instead of 1
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kTokens = 16;
constexpr int kDim = 128;
constexpr int kPitch = 20;

__device__ signed char to_level(float value, float largest) {
  return static_cast<signed char>(__float2int_rn(value * 127.0f / largest));
}

__global__ void __launch_bounds__(kThreads)
    quantize_pages(const __half2* __restrict__ keys, signed char* __restrict__ cache,
                   float* __restrict__ scales) {
  const int lane = threadIdx.x % 32;
  const std::int64_t page = blockIdx.y;
  const std::int64_t head = blockIdx.x;
  const std::int64_t heads = gridDim.x;
  __shared__ __align__(4) signed char tile[kDim * kPitch];

  for (int token = threadIdx.x / 32; token < kTokens; token += kWarps) {
    const std::int64_t row = (page * kTokens + token) * heads + head;
    const float2 low = __half22float2(keys[row * (kDim / 2) + lane]);
    const float2 high = __half22float2(keys[row * (kDim / 2) + 32 + lane]);
    float largest = fmaxf(fmaxf(fabsf(low.x), fabsf(low.y)), fmaxf(fabsf(high.x), fabsf(high.y)));
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, offset));
    }
    largest = fmaxf(largest, 1e-30f);
    tile[(2 * lane) * kPitch + token] = to_level(low.x, largest);
    tile[(2 * lane + 1) * kPitch + token] = to_level(low.y, largest);
    tile[(2 * lane + 64) * kPitch + token] = to_level(high.x, largest);
    tile[(2 * lane + 65) * kPitch + token] = to_level(high.y, largest);
    if (lane == 0) scales[row] = largest / 127.0f;
  }
  __syncthreads();
  int* out = reinterpret_cast<int*>(cache + (page * heads + head) * kDim * kTokens);
  for (int i = threadIdx.x; i < kDim * kTokens / 4; i += kThreads) {
    out[i] = *reinterpret_cast<const int*>(&tile[i / 4 * kPitch + i % 4 * 4]);
  }
}

}  // namespace

extern "C" int quantize_keys(const void* keys, signed char* cache, float* scales,
                             std::int64_t pages, std::int64_t heads, void* stream) {
  const dim3 grid(static_cast<unsigned>(heads), static_cast<unsigned>(pages));
  quantize_pages<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const __half2*>(keys), cache, scales);
  return static_cast<int>(cudaGetLastError());
}
