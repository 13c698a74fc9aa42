// kernel: relaxation_forty_launches/before/cuda
// flaw: each of 40 steps of 65536 cells is a launch of its own
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kSteps = 40;
constexpr float kRate = 0.05f;

__global__ void __launch_bounds__(kThreads)
    relax_cells(const float* __restrict__ drive, float* __restrict__ state, int n) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= n) return;
  const float now = state[i];
  state[i] = fmaf(kRate, drive[i] - now * fabsf(now), now);
}

}  // namespace

extern "C" int relax(const float* start, const float* drive, float* state, std::int64_t n,
                     void* stream) {
  (void)start;
  const int blocks = static_cast<int>((n + kThreads - 1) / kThreads);
  for (int step = 0; step < kSteps; ++step) {
    relax_cells<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(drive, state,
                                                                          static_cast<int>(n));
  }
  return static_cast<int>(cudaGetLastError());
}
