// kernel: leaky_integrator_readout/after/cuda
// change: __launch_bounds__(128, 1) -> __launch_bounds__(128, 16), 128 -> 32 registers
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 128;
constexpr int kTerms = 96;
constexpr float kDecay = 0.9f;

__global__ void __launch_bounds__(kThreads, 16)
    integrate_series(const float* __restrict__ x, const float* __restrict__ readout,
                     float* __restrict__ y, int steps, int series) {
  const int s = blockIdx.x * kThreads + threadIdx.x;
  if (s >= series) return;
  float state = 0.f;
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    const float sample = x[static_cast<std::int64_t>(step) * series + s];
    state = fmaf(kDecay, state, sample / (1.f + fabsf(sample)));
  }
  const float t = state / (1.f + fabsf(state));
  float value = 0.f;
#pragma unroll
  for (int k = 0; k < kTerms; ++k) {
    value = fmaf(value, t, readout[static_cast<std::int64_t>(k) * series + s]);
  }
  y[s] = value;
}

}  // namespace

extern "C" int integrate(const float* x, const float* readout, float* y, std::int64_t steps,
                         std::int64_t series, void* stream) {
  const int blocks = static_cast<int>((series + kThreads - 1) / kThreads);
  integrate_series<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      x, readout, y, static_cast<int>(steps), static_cast<int>(series));
  return static_cast<int>(cudaGetLastError());
}
