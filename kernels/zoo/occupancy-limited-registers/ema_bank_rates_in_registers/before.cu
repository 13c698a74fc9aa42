// kernel: ema_bank_rates_in_registers/before/cuda
// flaw: the rates, equal in all threads, occupy 64 registers of each, so that few warps fit an SM
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 128;
constexpr int kBank = 64;

__global__ void __launch_bounds__(kThreads)
    filter_series(const float* __restrict__ x, const float* __restrict__ rates,
                  float* __restrict__ averages, int steps, int series) {
  const int s = blockIdx.x * kThreads + threadIdx.x;
  if (s >= series) return;
  float rate[kBank];
#pragma unroll
  for (int b = 0; b < kBank; ++b) rate[b] = rates[b];
  float average[kBank] = {};
#pragma unroll 1
  for (int t = 0; t < steps; ++t) {
    const float sample = x[static_cast<std::int64_t>(t) * series + s];
#pragma unroll
    for (int b = 0; b < kBank; ++b) {
      average[b] = fmaf(rate[b], sample - average[b], average[b]);
    }
  }
#pragma unroll
  for (int b = 0; b < kBank; ++b) {
    averages[static_cast<std::int64_t>(b) * series + s] = average[b];
  }
}

}  // namespace

extern "C" int ema_bank(const float* x, const float* rates, float* averages, std::int64_t steps,
                        std::int64_t series, void* stream) {
  const int blocks = static_cast<int>((series + kThreads - 1) / kThreads);
  filter_series<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      x, rates, averages, static_cast<int>(steps), static_cast<int>(series));
  return static_cast<int>(cudaGetLastError());
}
