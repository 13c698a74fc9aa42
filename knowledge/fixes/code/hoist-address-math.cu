// fix: hoist-address-math
// arch: sm_80 sm_90a sm_100a
// source: kernelkb-judgement
#include <cuda_runtime.h>

// Weighs the rows of a ring of `rows` rows, from row `head` on; 0 <= head < rows.
namespace before {

// A remainder, a 64-bit product and a 64-bit sum for each element.
__global__ void weigh_ring(const float* __restrict__ ring, const float* __restrict__ weight,
                           float* __restrict__ out, int rows, int cols, int head) {
  const int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= cols) return;
  float sum = 0.0f;
  for (int r = 0; r < rows; ++r) {
    sum = fmaf(weight[r], ring[static_cast<size_t>((head + r) % rows) * cols + c], sum);
  }
  out[c] = sum;
}

}  // namespace before

namespace after {

// One 64-bit sum for each element: the pointer advances, and wraps once in two plain loops.
__global__ void weigh_ring(const float* __restrict__ ring, const float* __restrict__ weight,
                           float* __restrict__ out, int rows, int cols, int head) {
  const int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= cols) return;
  const float* p = ring + static_cast<size_t>(head) * cols + c;
  float sum = 0.0f;
  int r = 0;
  for (; r < rows - head; ++r, p += cols) sum = fmaf(weight[r], *p, sum);
  for (p = ring + c; r < rows; ++r, p += cols) sum = fmaf(weight[r], *p, sum);
  out[c] = sum;
}

}  // namespace after
