// fix: remap-threads-coalesced
// arch: sm_80 sm_90a sm_100a
// source: nsight-compute-rules
#include <cuda_runtime.h>

namespace before {

// One thread per row: the 32 lanes of a warp read 32 sectors for 128 bytes.
__global__ void row_sums(const float* __restrict__ x, float* __restrict__ out, int rows,
                         int cols) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0.0f;
  for (int c = 0; c < cols; ++c) sum += x[static_cast<size_t>(row) * cols + c];
  out[row] = sum;
}

}  // namespace before

namespace after {

// One warp per row: the 32 lanes read 128 contiguous bytes. blockDim.x is a multiple of 32.
__global__ void row_sums(const float* __restrict__ x, float* __restrict__ out, int rows,
                         int cols) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;  // the whole warp leaves
  float sum = 0.0f;
  for (int c = lane; c < cols; c += 32) sum += x[static_cast<size_t>(row) * cols + c];
#pragma unroll
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  if (lane == 0) out[row] = sum;
}

}  // namespace after
