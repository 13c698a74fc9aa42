// kernel: sort64/naive/cuda
// shapes: x (64, n) float32 contiguous, free of NaN -> y (64, n) float32; n >= 0
// launch: grid ceil(n / 1024), block 1024, two blocks for each SM; one thread per column
// work: algorithm 512 B and 1344 FLOP (672 compare-exchanges) per column; here spills as well
// weakness: the launch bound leaves 32 registers for 64 values
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 1024;
constexpr int kBlocksPerSm = 2;
constexpr int kCount = 64;
constexpr int kLogCount = 6;

__global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    sort_column_per_thread(const float* __restrict__ x, float* __restrict__ y, std::int64_t n) {
  const std::int64_t column = blockIdx.x * static_cast<std::int64_t>(kThreads) + threadIdx.x;
  if (column >= n) return;
  float value[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) value[i] = x[i * n + column];

#pragma unroll
  for (int log_run = 1; log_run <= kLogCount; ++log_run) {
#pragma unroll
    for (int log_stride = log_run - 1; log_stride >= 0; --log_stride) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const int other = i ^ (1 << log_stride);
        if (other < i) continue;
        const float low = fminf(value[i], value[other]);
        const float high = fmaxf(value[i], value[other]);
        const bool ascending = (i >> log_run & 1) == 0;
        value[i] = ascending ? low : high;
        value[other] = ascending ? high : low;
      }
    }
  }

#pragma unroll
  for (int i = 0; i < kCount; ++i) y[i * n + column] = value[i];
}

}  // namespace

extern "C" int sort64(const float* x, float* y, std::int64_t n, void* stream) {
  if (n == 0) return 0;
  const auto blocks = static_cast<unsigned>((n + kThreads - 1) / kThreads);
  sort_column_per_thread<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(x, y, n);
  return static_cast<int>(cudaGetLastError());
}
