// kernel: lattice_walk_endpoints/after/cuda
// change: each thread follows four independent walkers at a time
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 128;
constexpr int kBlocks = 132;
constexpr int kSteps = 512;
constexpr int kWalkers = 4;

// Diagonal steps on the square lattice, drawn with a xorshift generator of 32 bits.
__global__ void __launch_bounds__(kThreads)
    walk(const int* __restrict__ seeds, int* __restrict__ distances, std::int64_t n) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
  std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  for (; first < n; first += stride * kWalkers) {
    unsigned int state[kWalkers];
    int x[kWalkers];
    int y[kWalkers];
#pragma unroll
    for (int w = 0; w < kWalkers; ++w) {
      const std::int64_t i = first + w * stride;
      state[w] = 2u * static_cast<unsigned int>(i < n ? seeds[i] : 0) + 1u;
      x[w] = 0;
      y[w] = 0;
    }
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int w = 0; w < kWalkers; ++w) {
        state[w] ^= state[w] << 13;
        state[w] ^= state[w] >> 17;
        state[w] ^= state[w] << 5;
        x[w] += static_cast<int>(state[w] >> 31);
        y[w] += static_cast<int>(state[w] >> 12 & 1u);
      }
    }
#pragma unroll
    for (int w = 0; w < kWalkers; ++w) {
      const std::int64_t i = first + w * stride;
      const int dx = 2 * x[w] - kSteps;
      const int dy = 2 * y[w] - kSteps;
      if (i < n) distances[i] = dx * dx + dy * dy;
    }
  }
}

}  // namespace

extern "C" int walk_lattice(const int* seeds, int* distances, std::int64_t n, void* stream) {
  walk<<<kBlocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(seeds, distances, n);
  return static_cast<int>(cudaGetLastError());
}
