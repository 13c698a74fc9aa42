// fix: algebraic-rewrite
// arch: sm_80 sm_90a sm_100a
// source: nsight-compute-rules
#include <cuda_runtime.h>

// (x - mean) * inverse * gamma + beta per column; grid (cols / 256 rounded up, row groups).
namespace before {

// Per element FADD, FMUL and FFMA: the subtraction has no product to join.
__global__ void normalize(const float* __restrict__ x, const float* __restrict__ mean,
                          const float* __restrict__ inverse, const float* __restrict__ gamma,
                          const float* __restrict__ beta, float* __restrict__ y, int rows,
                          int cols) {
  const int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= cols) return;
  const float m = mean[c], s = inverse[c], g = gamma[c], b = beta[c];
  for (int r = blockIdx.y; r < rows; r += gridDim.y) {
    const size_t i = static_cast<size_t>(r) * cols + c;
    y[i] = (x[i] - m) * s * g + b;
  }
}

}  // namespace before

namespace after {

// Regrouped to x * scale + shift: one FFMA. Loses digits where |mean| >> the deviation.
__global__ void normalize(const float* __restrict__ x, const float* __restrict__ mean,
                          const float* __restrict__ inverse, const float* __restrict__ gamma,
                          const float* __restrict__ beta, float* __restrict__ y, int rows,
                          int cols) {
  const int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= cols) return;
  const float scale = inverse[c] * gamma[c], shift = fmaf(-mean[c], scale, beta[c]);
  for (int r = blockIdx.y; r < rows; r += gridDim.y) {
    const size_t i = static_cast<size_t>(r) * cols + c;
    y[i] = fmaf(x[i], scale, shift);
  }
}

}  // namespace after
