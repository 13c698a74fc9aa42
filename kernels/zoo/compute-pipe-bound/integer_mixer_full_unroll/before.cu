// kernel: integer_mixer_full_unroll/before/cuda
// form: a loop of integer arithmetic, unrolled 8 times
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kRounds = 4096;
constexpr unsigned kMultiplier = 0x2C1B3C6D;
constexpr int kUnroll = 8;

__global__ void __launch_bounds__(kThreads)
    mix_values(const int* __restrict__ x, int* __restrict__ y, std::int64_t n) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  unsigned state = x[i];
#pragma unroll kUnroll
  for (int r = 0; r < kRounds; ++r) state = (state ^ (state >> 15)) * (kMultiplier + 2 * r);
  y[i] = static_cast<int>(state >> 1);
}

}  // namespace

extern "C" int mix(const int* x, int* y, std::int64_t n, void* stream) {
  const unsigned blocks = static_cast<unsigned>((n + kThreads - 1) / kThreads);
  mix_values<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(x, y, n);
  return static_cast<int>(cudaGetLastError());
}
