// fix: xor-swizzle
// arch: sm_80 sm_90a sm_100a
// source: nsight-compute-rules
#include <cuda_runtime.h>

// Transposes x (rows by cols, both multiples of 32).
// Grid (cols / 32, rows / 32), 32 x 8 threads.
namespace before {

// Reading a column: all 32 lanes hit one bank.
__global__ void transpose(const float* __restrict__ x, float* __restrict__ y, int rows,
                          int cols) {
  __shared__ float s[32][32];
  const int c = threadIdx.x, row = blockIdx.y * 32, col = blockIdx.x * 32;
  for (int r = threadIdx.y; r < 32; r += 8) {
    s[r][c] = x[static_cast<size_t>(row + r) * cols + col + c];
  }
  __syncthreads();
  for (int r = threadIdx.y; r < 32; r += 8) {
    y[static_cast<size_t>(col + r) * rows + row + c] = s[c][r];
  }
}

}  // namespace before

namespace after {

// 4-byte columns take all five bits of the row: c ^ r, so 32 rows lie in 32 banks.
// With 4 * (r % 8) instead, only 8 banks differ and a 4-way conflict stays; that form is for
// 16-byte chunks of 128-byte rows: chunk ^ r % 8.
__global__ void transpose(const float* __restrict__ x, float* __restrict__ y, int rows,
                          int cols) {
  __shared__ float s[32][32];
  const int c = threadIdx.x, row = blockIdx.y * 32, col = blockIdx.x * 32;
  for (int r = threadIdx.y; r < 32; r += 8) {
    s[r][c ^ r] = x[static_cast<size_t>(row + r) * cols + col + c];
  }
  __syncthreads();
  for (int r = threadIdx.y; r < 32; r += 8) {
    y[static_cast<size_t>(col + r) * rows + row + c] = s[c][r ^ c];  // row c, column r
  }
}

}  // namespace after
