// kernel: wmma_gemm_global_fragments/after/cuda
// change: the block stages tiles in shared memory, and warps load their fragments from there
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
constexpr int kDepth = 32;
constexpr int kPitchA = kDepth + 8;
constexpr int kPitchB = kTileN + 8;

// Copies a tile of kRows x kColumns halves, 16 bytes at a time.
template <int kRows, int kColumns>
__device__ void copy_tile(__half* tile, int pitch, const __half* source, int stride) {
  constexpr int kChunks = kRows * kColumns / 8;
#pragma unroll
  for (int first = 0; first < kChunks; first += kThreads) {
    const int i = first + threadIdx.x;
    if (kChunks % kThreads != 0 && i >= kChunks) break;
    const int y = i / (kColumns / 8), x = i % (kColumns / 8) * 8;
    *reinterpret_cast<uint4*>(&tile[y * pitch + x]) =
        *reinterpret_cast<const uint4*>(&source[y * stride + x]);
  }
}

__global__ void __launch_bounds__(kThreads)
    multiply_tiles(const __half* __restrict__ a, const __half* __restrict__ b,
                   float* __restrict__ c, int n, int k) {
  __shared__ __align__(32) __half tile_a[kTileM * kPitchA];
  __shared__ __align__(32) __half tile_b[kDepth * kPitchB];
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
#pragma unroll 1
  for (int step = 0; step < k; step += kDepth) {
    copy_tile<kTileM, kDepth>(tile_a, kPitchA, a + step, k);
    copy_tile<kDepth, kTileN>(tile_b, kPitchB, b + static_cast<std::int64_t>(step) * n, n);
    __syncthreads();
#pragma unroll
    for (int p = 0; p < kDepth; p += 16) {
#pragma unroll
      for (int i = 0; i < kFragsM; ++i) {
        wmma::load_matrix_sync(part_a[i], &tile_a[(row + 16 * i) * kPitchA + p], kPitchA);
      }
#pragma unroll
      for (int j = 0; j < kFragsN; ++j) {
        wmma::load_matrix_sync(part_b, &tile_b[p * kPitchB + column + 16 * j], kPitchB);
#pragma unroll
        for (int i = 0; i < kFragsM; ++i) wmma::mma_sync(sums[i][j], part_a[i], part_b, sums[i][j]);
      }
    }
    __syncthreads();
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
