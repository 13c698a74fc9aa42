// fix: launch-bounds
// arch: sm_80 sm_90a sm_100a
// source: nsight-compute-rules
#include <cuda_runtime.h>

// A long walk per item with few registers, then a product with 64 weights per item whose
// unrolled loads take many. All threads pay for them during the walk.
__device__ void walk_and_weigh(const float* __restrict__ x, const float* __restrict__ w,
                               float* __restrict__ out, int steps, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float level = 0.0f, sum = 0.0f, power = 1.0f;
#pragma unroll 1
  for (int s = 0; s < steps; ++s) {
    level = fmaf(0.5f, level, fabsf(x[static_cast<size_t>(s) * n + i]));
  }
#pragma unroll
  for (int k = 0; k < 64; ++k) {
    sum = fmaf(w[static_cast<size_t>(k) * n + i], power, sum);
    power *= level;
  }
  out[i] = sum;
}

namespace before {

// Asks for one block per SM only: 72 registers, since most weights are loaded at once.
__global__ void __launch_bounds__(256, 1)
    weigh(const float* x, const float* w, float* out, int steps, int n) {
  walk_and_weigh(x, w, out, steps, n);
}

}  // namespace before

namespace after {

// Asks for eight: 65536 / 2048 = 32 registers, and ptxas -v reports no spills.
__global__ void __launch_bounds__(256, 8)
    weigh(const float* x, const float* w, float* out, int steps, int n) {
  walk_and_weigh(x, w, out, steps, n);
}

}  // namespace after
