// kernel: relaxation_small_batch/before/cuda
// form: one cell a thread and one block of 256 threads on each SM
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kSteps = 6144;
constexpr float kStep = 1.0f / 4096.0f;
constexpr int kItems = 1;

// n is a multiple of 4.
__global__ void __launch_bounds__(kThreads)
    integrate(const float* __restrict__ start, const float* __restrict__ drive,
              float* __restrict__ end, int n) {
  const int i = (blockIdx.x * kThreads + threadIdx.x) * kItems;
  if (i >= n) return;
  float v[kItems] = {start[i]};
  const float force[kItems] = {drive[i]};
  float w[kItems] = {};
#pragma unroll 4
  for (int s = 0; s < kSteps; ++s) {
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
      const float slope = force[k] - v[k] - v[k] * v[k] * v[k] - w[k];
      w[k] += (v[k] - 2.0f * w[k]) * kStep;
      v[k] += slope * kStep;
    }
  }
  end[i] = v[0];
}

}  // namespace

extern "C" int relax(const float* start, const float* drive, float* end, std::int64_t n,
                     void* stream) {
  constexpr int kPerBlock = kThreads * kItems;
  const unsigned blocks = static_cast<unsigned>((n + kPerBlock - 1) / kPerBlock);
  integrate<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(start, drive, end,
                                                                        static_cast<int>(n));
  return static_cast<int>(cudaGetLastError());
}
