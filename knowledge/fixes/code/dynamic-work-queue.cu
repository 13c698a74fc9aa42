// fix: dynamic-work-queue
// arch: sm_80 sm_90a sm_100a
// source: kernelkb-judgement
#include <cuda_runtime.h>

// The sum of ragged row r, elements start[r] to start[r + 1] - 1, by a warp.
__device__ void sum_row(const float* x, const int* start, float* out, int r) {
  const int lane = threadIdx.x % 32;
  float sum = 0.0f;
  for (int i = start[r] + lane; i < start[r + 1]; i += 32) sum += x[i];
#pragma unroll
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  if (lane == 0) out[r] = sum;
}

// The grid is what fits the GPU at once; blocks hold whole warps.
namespace before {

// Equal numbers of rows for each warp, however long they are.
__global__ void row_sums(const float* x, const int* start, float* out, int rows) {
  const int warps = gridDim.x * blockDim.x / 32;
  for (int r = (blockIdx.x * blockDim.x + threadIdx.x) / 32; r < rows; r += warps) {
    sum_row(x, start, out, r);
  }
}

}  // namespace before

namespace after {

// A warp that is done draws the next row. *next is 0 at the start.
__global__ void row_sums(const float* x, const int* start, float* out, int rows, int* next) {
  while (true) {
    int r = 0;
    if (threadIdx.x % 32 == 0) r = atomicAdd(next, 1);
    r = __shfl_sync(~0u, r, 0);
    if (r >= rows) return;
    sum_row(x, start, out, r);
  }
}

}  // namespace after
