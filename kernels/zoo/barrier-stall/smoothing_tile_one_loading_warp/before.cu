// kernel: smoothing_tile_one_loading_warp/before/cuda
// flaw: the first warp loads the whole tile while the other 31 wait at the barrier
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 1024;
constexpr int kTile = 4096;
constexpr int kRadius = 2;

__global__ void __launch_bounds__(kThreads)
    smooth_tiles(const float* __restrict__ x, const float* __restrict__ taps,
                 float* __restrict__ y, int n) {
  __shared__ float tile[kTile + 2 * kRadius];
  const int first = blockIdx.x * kTile;
  if (threadIdx.x < 32) {
    for (int e = threadIdx.x; e < kTile + 2 * kRadius; e += 32) {
      const int i = first + e - kRadius;
      tile[e] = i >= 0 && i < n ? x[i] : 0.f;
    }
  }
  float tap[2 * kRadius + 1];
#pragma unroll
  for (int k = 0; k <= 2 * kRadius; ++k) tap[k] = taps[k];
  __syncthreads();
  for (int e = threadIdx.x; e < kTile && first + e < n; e += kThreads) {
    float sum = 0.f;
#pragma unroll
    for (int k = 0; k <= 2 * kRadius; ++k) sum = fmaf(tap[k], tile[e + k], sum);
    y[first + e] = sum;
  }
}

}  // namespace

extern "C" int smooth(const float* x, const float* taps, float* y, std::int64_t n, void* stream) {
  const int blocks = static_cast<int>((n + kTile - 1) / kTile);
  smooth_tiles<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(x, taps, y,
                                                                         static_cast<int>(n));
  return static_cast<int>(cudaGetLastError());
}
