// fix: smem-transpose
// arch: sm_80 sm_90a sm_100a
// source: nsight-compute-rules
#include <cuda_runtime.h>

// y (cols by rows) is the transpose of x (rows by cols).
namespace before {

// Grid (cols / 32, rows / 8), rounded up; 32 x 8 threads. A warp stores to 32 sectors.
__global__ void transpose(const float* __restrict__ x, float* __restrict__ y, int rows,
                          int cols) {
  const int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 8 + threadIdx.y;
  if (r < rows && c < cols) {
    y[static_cast<size_t>(c) * rows + r] = x[static_cast<size_t>(r) * cols + c];
  }
}

}  // namespace before

namespace after {

// Grid (cols / 32, rows / 32), rounded up; 32 x 8 threads. Loads and stores follow rows.
__global__ void transpose(const float* __restrict__ x, float* __restrict__ y, int rows,
                          int cols) {
  __shared__ float tile[32][33];  // the 33rd column keeps column reads free of conflicts
  const int row = blockIdx.y * 32, col = blockIdx.x * 32;
  for (int i = threadIdx.y; i < 32; i += 8) {
    const int r = row + i, c = col + threadIdx.x;
    if (r < rows && c < cols) tile[i][threadIdx.x] = x[static_cast<size_t>(r) * cols + c];
  }
  __syncthreads();
  for (int i = threadIdx.y; i < 32; i += 8) {
    const int r = row + threadIdx.x, c = col + i;
    if (r < rows && c < cols) y[static_cast<size_t>(c) * rows + r] = tile[threadIdx.x][i];
  }
}

}  // namespace after
