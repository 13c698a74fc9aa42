// kernel: ema_bank_rates_in_registers/after/cuda
// change: the 64 rates stay in shared memory instead of in registers
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 128;
constexpr int kBank = 64;

__global__ void __launch_bounds__(kThreads)
    filter_series(const float* __restrict__ x, const float* __restrict__ rates,
                  float* __restrict__ averages, int steps, int series) {
  __shared__ float4 shared_rates[kBank / 4];
  if (threadIdx.x < kBank / 4) {
    shared_rates[threadIdx.x] = reinterpret_cast<const float4*>(rates)[threadIdx.x];
  }
  __syncthreads();
  const int s = blockIdx.x * kThreads + threadIdx.x;
  if (s >= series) return;
  float average[kBank] = {};
#pragma unroll 1
  for (int t = 0; t < steps; ++t) {
    const float sample = x[static_cast<std::int64_t>(t) * series + s];
    __syncwarp(__activemask());  // keeps the compiler from moving the rates into registers
#pragma unroll
    for (int b = 0; b < kBank; b += 4) {
      const float4 rate = shared_rates[b / 4];
      average[b] = fmaf(rate.x, sample - average[b], average[b]);
      average[b + 1] = fmaf(rate.y, sample - average[b + 1], average[b + 1]);
      average[b + 2] = fmaf(rate.z, sample - average[b + 2], average[b + 2]);
      average[b + 3] = fmaf(rate.w, sample - average[b + 3], average[b + 3]);
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
