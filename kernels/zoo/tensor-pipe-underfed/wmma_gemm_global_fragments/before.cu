// kernel: wmma_gemm_global_fragments/before/cuda
// flaw: each warp loads its fragments straight from global memory
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <cstdint>

namespace {

namespace wmma = nvcuda::wmma;

constexpr int kThreads = 256;
constexpr int kFragsM = 2;
constexpr int kFragsN = 4;
constexpr int kTileM = 4 * 16 * kFragsM;
constexpr int kTileN = 2 * 16 * kFragsN;

__global__ void __launch_bounds__(kThreads)
    multiply_tiles(const __half* __restrict__ a, const __half* __restrict__ b,
                   float* __restrict__ c, int n, int k) {
  const int warp = threadIdx.x / 32;
  const int row = warp / 2 * 16 * kFragsM, column = warp % 2 * 16 * kFragsN;
  a += static_cast<std::int64_t>(blockIdx.y) * kTileM * k;
  b += blockIdx.x * kTileN;
  c += static_cast<std::int64_t>(blockIdx.y) * kTileM * n + blockIdx.x * kTileN;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> part_a[kFragsM];
  wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> part_b;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums[kFragsM][kFragsN];
#pragma unroll
  for (int i = 0; i < kFragsM; ++i) {
#pragma unroll
    for (int j = 0; j < kFragsN; ++j) wmma::fill_fragment(sums[i][j], 0.0f);
  }
#pragma unroll 2
  for (int p = 0; p < k; p += 16) {
#pragma unroll
    for (int i = 0; i < kFragsM; ++i) {
      wmma::load_matrix_sync(part_a[i], &a[(row + 16 * i) * k + p], k);
    }
#pragma unroll
    for (int j = 0; j < kFragsN; ++j) {
      wmma::load_matrix_sync(part_b, &b[static_cast<std::int64_t>(p) * n + column + 16 * j], n);
#pragma unroll
      for (int i = 0; i < kFragsM; ++i) wmma::mma_sync(sums[i][j], part_a[i], part_b, sums[i][j]);
    }
  }
#pragma unroll
  for (int i = 0; i < kFragsM; ++i) {
#pragma unroll
    for (int j = 0; j < kFragsN; ++j) {
      wmma::store_matrix_sync(&c[(row + 16 * i) * n + column + 16 * j], sums[i][j], n,
                              wmma::mem_row_major);
    }
  }
}

}  // namespace

extern "C" int multiply(const __half* a, const __half* b, float* c, std::int64_t m, std::int64_t n,
                        std::int64_t k, void* stream) {
  const dim3 blocks(static_cast<int>(n / kTileN), static_cast<int>(m / kTileM));
  multiply_tiles<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      a, b, c, static_cast<int>(n), static_cast<int>(k));
  return static_cast<int>(cudaGetLastError());
}
