// kernel: silu_staged_tile/before/cuda
// form: a streaming kernel; each value is loaded, used and stored once
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kTile = 16384;

__global__ void __launch_bounds__(kThreads)
    activate(const float* __restrict__ x, float* __restrict__ y, std::int64_t n) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kTile;
  const int count = n - first < kTile ? static_cast<int>(n - first) : kTile;
  const float* from = x + first;
  float* to = y + first;
#pragma unroll 4
  for (int i = threadIdx.x; i < count; i += kThreads) {
    const float value = from[i];
    to[i] = value / (1.0f + expf(-value));
  }
}

}  // namespace

extern "C" int silu(const float* x, float* y, std::int64_t n, void* stream) {
  const unsigned blocks = static_cast<unsigned>((n + kTile - 1) / kTile);
  activate<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(x, y, n);
  return static_cast<int>(cudaGetLastError());
}
