// fix: hoist-invariants
// arch: sm_80 sm_90a sm_100a
// source: kernelkb-judgement
#include <cuda_runtime.h>

namespace before {

// y may alias variance for the compiler, so load and square root stay in the loop.
__global__ void divide_by_deviation(const float* x, const float* variance, float* y, int rows,
                                    int cols) {
  const int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= cols) return;
  for (int r = blockIdx.y; r < rows; r += gridDim.y) {
    const size_t i = static_cast<size_t>(r) * cols + c;
    y[i] = x[i] / sqrtf(variance[c] + 1e-5f);
  }
}

}  // namespace before

namespace after {

// One load and one square root per thread.
__global__ void divide_by_deviation(const float* x, const float* variance, float* y, int rows,
                                    int cols) {
  const int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= cols) return;
  const float deviation = sqrtf(variance[c] + 1e-5f);
  for (int r = blockIdx.y; r < rows; r += gridDim.y) {
    const size_t i = static_cast<size_t>(r) * cols + c;
    y[i] = x[i] / deviation;
  }
}

}  // namespace after
