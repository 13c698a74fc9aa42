// kernel: batched_small_gemm/after/cuda
// change: the same tiles are multiplied with wmma; a warp takes 16 x 32 of the 64 x 64 outputs
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <cstdint>

namespace {

namespace wmma = nvcuda::wmma;

constexpr int kThreads = 256;
constexpr int kSide = 64;
constexpr int kInner = 256;
constexpr int kDepth = 64;
constexpr int kPitch = kSide + 8;

__global__ void __launch_bounds__(kThreads)
    multiply_pair(const __half* __restrict__ a, const __half* __restrict__ b,
                  float* __restrict__ c) {
  __shared__ __align__(32) __half tile_a[kSide * kPitch];
  __shared__ __align__(32) __half tile_b[kDepth * kPitch];
  a += static_cast<std::int64_t>(blockIdx.x) * kSide * kInner;
  b += static_cast<std::int64_t>(blockIdx.x) * kSide * kInner;
  c += static_cast<std::int64_t>(blockIdx.x) * kSide * kSide;
  const int thread = threadIdx.x;
  const int row = thread / 64 * 16, column = thread / 32 % 2 * 32;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> part_a;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> part_b;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums[2];
  for (auto& sum : sums) wmma::fill_fragment(sum, 0.0f);
  for (int step = 0; step < kInner; step += kDepth) {
    for (int i = thread; i < kSide * kDepth / 8; i += kThreads) {
      const int y = i / 8, x = i % 8 * 8;
      *reinterpret_cast<uint4*>(&tile_a[y * kPitch + x]) =
          *reinterpret_cast<const uint4*>(&a[y * kInner + step + x]);
      *reinterpret_cast<uint4*>(&tile_b[y * kPitch + x]) =
          *reinterpret_cast<const uint4*>(&b[(step + y) * kSide + x]);
    }
    __syncthreads();
#pragma unroll
    for (int p = 0; p < kDepth; p += 16) {
      wmma::load_matrix_sync(part_a, &tile_a[row * kPitch + p], kPitch);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        wmma::load_matrix_sync(part_b, &tile_b[p * kPitch + column + 16 * j], kPitch);
        wmma::mma_sync(sums[j], part_a, part_b, sums[j]);
      }
    }
    __syncthreads();
  }
  for (int j = 0; j < 2; ++j) {
    wmma::store_matrix_sync(&c[row * kSide + column + 16 * j], sums[j], kSide, wmma::mem_row_major);
  }
}

}  // namespace

extern "C" int multiply_all(const __half* a, const __half* b, float* c,
                            std::int64_t batch, void* stream) {
  multiply_pair<<<static_cast<int>(batch), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(a, b,
                                                                                             c);
  return static_cast<int>(cudaGetLastError());
}
