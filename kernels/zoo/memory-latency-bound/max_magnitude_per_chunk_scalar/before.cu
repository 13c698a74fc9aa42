// kernel: max_magnitude_per_chunk_scalar/before/cuda
// flaw: each thread has one 4-byte load in flight
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kChunk = 4096;

__global__ void __launch_bounds__(kThreads)
    find_chunk_max(const float* __restrict__ x, float* __restrict__ largest, int chunks) {
  const int chunk = (blockIdx.x * kThreads + threadIdx.x) / 32;
  if (chunk >= chunks) return;
  const int lane = threadIdx.x % 32;
  float best = 0.f;
  const float* values = x + static_cast<std::int64_t>(chunk) * kChunk;
#pragma unroll 1
  for (int e = lane; e < kChunk; e += 32) best = fmaxf(best, fabsf(values[e]));
  for (int step = 16; step > 0; step /= 2) {
    best = fmaxf(best, __shfl_xor_sync(0xffffffffu, best, step));
  }
  if (lane == 0) largest[chunk] = best;
}

}  // namespace

extern "C" int chunk_max(const float* x, float* largest, std::int64_t chunks, void* stream) {
  const int blocks = static_cast<int>((chunks * 32 + kThreads - 1) / kThreads);
  find_chunk_max<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      x, largest, static_cast<int>(chunks));
  return static_cast<int>(cudaGetLastError());
}
