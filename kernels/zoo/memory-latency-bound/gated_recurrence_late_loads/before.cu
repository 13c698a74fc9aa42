// kernel: gated_recurrence_late_loads/before/cuda
// flaw: each step waits for the load of its input before its long chain of arithmetic
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads, 8)
    run_recurrence(const float* __restrict__ x, float* __restrict__ state, int steps,
                   int channels) {
  const int c = blockIdx.x * kThreads + threadIdx.x;
  if (c >= channels) return;
  const float* sample = x + c;
  float h = 0.f;
#pragma unroll 1
  for (int step = 0; step < steps; ++step, sample += channels) {
    h = tanhf(fmaf(0.5f, h, *sample));
  }
  state[c] = h;
}

}  // namespace

extern "C" int recur(const float* x, float* state, std::int64_t steps, std::int64_t channels,
                     void* stream) {
  const int blocks = static_cast<int>((channels + kThreads - 1) / kThreads);
  run_recurrence<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      x, state, static_cast<int>(steps), static_cast<int>(channels));
  return static_cast<int>(cudaGetLastError());
}
