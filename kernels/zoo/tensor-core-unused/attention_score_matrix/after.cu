// kernel: attention_score_matrix/after/cuda
// change: the same tiles are multiplied with wmma; a warp takes 16 x 32 of the 64 x 64 scores
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <cstdint>

namespace {

namespace wmma = nvcuda::wmma;

constexpr int kThreads = 256;
constexpr int kTile = 64;
constexpr int kDim = 64;
constexpr int kPitch = kDim + 8;
constexpr float kScale = 0.125f;

__global__ void __launch_bounds__(kThreads)
    score_tile(const __half* __restrict__ queries, const __half* __restrict__ keys,
               float* __restrict__ scores, int seq) {
  __shared__ __align__(32) __half tile_q[kTile * kPitch];
  __shared__ __align__(32) __half tile_k[kTile * kPitch];
  const int thread = threadIdx.x;
  const int first_row = blockIdx.y * kTile, first_column = blockIdx.x * kTile;
  queries += (static_cast<std::int64_t>(blockIdx.z) * seq + first_row) * kDim;
  keys += (static_cast<std::int64_t>(blockIdx.z) * seq + first_column) * kDim;
  scores += (static_cast<std::int64_t>(blockIdx.z) * seq + first_row) * seq + first_column;
  for (int i = thread; i < kTile * kDim / 8; i += kThreads) {
    const int y = i / 8, x = i % 8 * 8;
    *reinterpret_cast<uint4*>(&tile_q[y * kPitch + x]) =
        *reinterpret_cast<const uint4*>(&queries[y * kDim + x]);
    *reinterpret_cast<uint4*>(&tile_k[y * kPitch + x]) =
        *reinterpret_cast<const uint4*>(&keys[y * kDim + x]);
  }
  __syncthreads();
  const int row = thread / 64 * 16, column = thread / 32 % 2 * 32;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> query;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> key;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums[2];
  for (auto& sum : sums) wmma::fill_fragment(sum, 0.0f);
#pragma unroll
  for (int p = 0; p < kDim; p += 16) {
    wmma::load_matrix_sync(query, &tile_q[row * kPitch + p], kPitch);
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      wmma::load_matrix_sync(key, &tile_k[(column + 16 * j) * kPitch + p], kPitch);
      wmma::mma_sync(sums[j], query, key, sums[j]);
    }
  }
  for (int j = 0; j < 2; ++j) {
    for (int e = 0; e < sums[j].num_elements; ++e) sums[j].x[e] *= kScale;
    wmma::store_matrix_sync(&scores[row * seq + column + 16 * j], sums[j], seq,
                            wmma::mem_row_major);
  }
}

}  // namespace

extern "C" int compute_scores(const __half* queries, const __half* keys, float* scores,
                              std::int64_t heads, std::int64_t seq, void* stream) {
  const int tiles = static_cast<int>(seq / kTile);
  const dim3 blocks(tiles, tiles, static_cast<int>(heads));
  score_tile<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(queries, keys, scores,
                                                                         static_cast<int>(seq));
  return static_cast<int>(cudaGetLastError());
}
