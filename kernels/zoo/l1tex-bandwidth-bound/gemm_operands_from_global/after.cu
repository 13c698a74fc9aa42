// kernel: gemm_operands_from_global/after/cuda
// change: a block of 32 x 32 threads stages tiles of 32 x 32 of both operands in shared memory
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kTile = 32;

__global__ void __launch_bounds__(kTile* kTile)
    multiply(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m,
             int n, int k) {
  __shared__ float a_tile[kTile][kTile];
  __shared__ float b_tile[kTile][kTile];
  const int row = blockIdx.y * kTile + threadIdx.y;
  const int column = blockIdx.x * kTile + threadIdx.x;
  const float* a_row = a + static_cast<std::int64_t>(row) * k;
  float sum = 0.0f;
  for (int start = 0; start < k; start += kTile) {
    const int a_column = start + threadIdx.x;
    const int b_row = start + threadIdx.y;
    a_tile[threadIdx.y][threadIdx.x] = row < m && a_column < k ? a_row[a_column] : 0.0f;
    b_tile[threadIdx.y][threadIdx.x] =
        b_row < k && column < n ? b[static_cast<std::int64_t>(b_row) * n + column] : 0.0f;
    __syncthreads();
#pragma unroll
    for (int p = 0; p < kTile; ++p) sum += a_tile[threadIdx.y][p] * b_tile[p][threadIdx.x];
    __syncthreads();
  }
  if (row < m && column < n) c[static_cast<std::int64_t>(row) * n + column] = sum;
}

}  // namespace

extern "C" int matrix_product(const float* a, const float* b, float* c, std::int64_t m,
                              std::int64_t n, std::int64_t k, void* stream) {
  const dim3 grid((n + kTile - 1) / kTile, (m + kTile - 1) / kTile);
  const dim3 block(kTile, kTile);
  multiply<<<grid, block, 0, static_cast<cudaStream_t>(stream)>>>(
      a, b, c, static_cast<int>(m), static_cast<int>(n), static_cast<int>(k));
  return static_cast<int>(cudaGetLastError());
}
