// kernel: tile_product_in_registers/before/cuda
// form: one accumulator tile a warp, and enough warps to keep the tensor cores busy
#include <cuda_runtime.h>
#include <mma.h>

#include <cstdint>

namespace {

namespace wmma = nvcuda::wmma;

constexpr int kThreads = 256;
constexpr int kSide = 16;
constexpr int kSteps = 4;
constexpr int kRounds = 512;
constexpr int kSums = 1;

__global__ void __launch_bounds__(kThreads)
    multiply_rounds(const __half* __restrict__ a, const __half* __restrict__ b,
                    float* __restrict__ c, int tiles) {
  const int tile = (blockIdx.x * kThreads + threadIdx.x) / 32;
  if (tile >= tiles) return;
  wmma::fragment<wmma::matrix_a, kSide, kSide, kSide, __half, wmma::row_major> left[kSteps];
  wmma::fragment<wmma::matrix_b, kSide, kSide, kSide, __half, wmma::row_major> right[kSteps];
  wmma::fragment<wmma::accumulator, kSide, kSide, kSide, float> sum[kSums];
  const std::int64_t first = static_cast<std::int64_t>(tile) * kSide * kSide * kSteps;
#pragma unroll
  for (int k = 0; k < kSteps; ++k) {
    wmma::load_matrix_sync(left[k], a + first + k * kSide, kSide * kSteps);
    wmma::load_matrix_sync(right[k], b + first + k * kSide * kSide, kSide);
  }
#pragma unroll
  for (int s = 0; s < kSums; ++s) wmma::fill_fragment(sum[s], 0.0f);
#pragma unroll 1
  for (int round = 0; round < kRounds; ++round) {
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      wmma::mma_sync(sum[k % kSums], left[k], right[k], sum[k % kSums]);
    }
  }
#pragma unroll
  for (int s = 1; s < kSums; ++s) {
    for (int i = 0; i < sum[0].num_elements; ++i) sum[0].x[i] += sum[s].x[i];
  }
  float* to = c + static_cast<std::int64_t>(tile) * kSide * kSide;
  wmma::store_matrix_sync(to, sum[0], kSide, wmma::mem_row_major);
}

}  // namespace

extern "C" int repeated_product(const __half* a, const __half* b, float* c, std::int64_t tiles,
                                void* stream) {
  const unsigned blocks = static_cast<unsigned>((tiles * 32 + kThreads - 1) / kThreads);
  multiply_rounds<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      a, b, c, static_cast<int>(tiles));
  return static_cast<int>(cudaGetLastError());
}
