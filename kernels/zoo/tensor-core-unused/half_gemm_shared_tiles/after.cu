// kernel: half_gemm_shared_tiles/after/cuda
// change: the same tiles are multiplied with wmma; a warp takes 16 x 32 of the 64 x 64 outputs
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <cstdint>

namespace {

namespace wmma = nvcuda::wmma;

constexpr int kThreads = 256;
constexpr int kTile = 64;
constexpr int kDepth = 32;
constexpr int kPitchA = kDepth + 8;
constexpr int kPitchB = kTile + 8;

__global__ void __launch_bounds__(kThreads)
    multiply_tiles(const __half* __restrict__ a, const __half* __restrict__ b,
                   float* __restrict__ c, int n, int k) {
  __shared__ __align__(32) __half tile_a[kTile * kPitchA];
  __shared__ __align__(32) __half tile_b[kDepth * kPitchB];
  const int thread = threadIdx.x;
  const int first_row = blockIdx.y * kTile, first_column = blockIdx.x * kTile;
  const int row = thread / 64 * 16, column = thread / 32 % 2 * 32;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> part_a;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> part_b;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums[2];
  for (auto& sum : sums) wmma::fill_fragment(sum, 0.0f);
  for (int step = 0; step < k; step += kDepth) {
    const int a_row = thread / 4, a_column = thread % 4 * 8;
    const int b_row = thread / 8, b_column = thread % 8 * 8;
    *reinterpret_cast<uint4*>(&tile_a[a_row * kPitchA + a_column]) =
        *reinterpret_cast<const uint4*>(&a[(first_row + a_row) * k + step + a_column]);
    *reinterpret_cast<uint4*>(&tile_b[b_row * kPitchB + b_column]) =
        *reinterpret_cast<const uint4*>(&b[(step + b_row) * n + first_column + b_column]);
    __syncthreads();
#pragma unroll
    for (int p = 0; p < kDepth; p += 16) {
      wmma::load_matrix_sync(part_a, &tile_a[row * kPitchA + p], kPitchA);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        wmma::load_matrix_sync(part_b, &tile_b[p * kPitchB + column + 16 * j], kPitchB);
        wmma::mma_sync(sums[j], part_a, part_b, sums[j]);
      }
    }
    __syncthreads();
  }
  for (int j = 0; j < 2; ++j) {
    wmma::store_matrix_sync(&c[(first_row + row) * n + first_column + column + 16 * j], sums[j], n,
                            wmma::mem_row_major);
  }
}

}  // namespace

extern "C" int multiply(const __half* a, const __half* b, float* c, std::int64_t m, std::int64_t n,
                        std::int64_t k, void* stream) {
  const dim3 blocks(static_cast<int>(n / kTile), static_cast<int>(m / kTile));
  multiply_tiles<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      a, b, c, static_cast<int>(n), static_cast<int>(k));
  return static_cast<int>(cudaGetLastError());
}
