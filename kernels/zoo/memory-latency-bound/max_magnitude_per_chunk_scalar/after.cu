// kernel: max_magnitude_per_chunk_scalar/after/cuda
// change: 16-byte loads of four values instead of 4-byte loads of one
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kChunk = 4096;

__global__ void __launch_bounds__(kThreads)
    find_chunk_max(const float4* __restrict__ x, float* __restrict__ largest, int chunks) {
  const int chunk = (blockIdx.x * kThreads + threadIdx.x) / 32;
  if (chunk >= chunks) return;
  const int lane = threadIdx.x % 32;
  float best = 0.f;
  const float4* values = x + static_cast<std::int64_t>(chunk) * (kChunk / 4);
#pragma unroll 1
  for (int e = lane; e < kChunk / 4; e += 32) {
    const float4 value = values[e];
    best = fmaxf(best, fmaxf(fabsf(value.x), fabsf(value.y)));
    best = fmaxf(best, fmaxf(fabsf(value.z), fabsf(value.w)));
  }
  for (int step = 16; step > 0; step /= 2) {
    best = fmaxf(best, __shfl_xor_sync(0xffffffffu, best, step));
  }
  if (lane == 0) largest[chunk] = best;
}

}  // namespace

extern "C" int chunk_max(const float* x, float* largest, std::int64_t chunks, void* stream) {
  const int blocks = static_cast<int>((chunks * 32 + kThreads - 1) / kThreads);
  find_chunk_max<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      reinterpret_cast<const float4*>(x), largest, static_cast<int>(chunks));
  return static_cast<int>(cudaGetLastError());
}
