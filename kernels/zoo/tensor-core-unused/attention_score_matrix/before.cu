// kernel: attention_score_matrix/before/cuda
// flaw: scores of queries and keys with scalar multiply-adds
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kTile = 64;
constexpr int kDim = 64;
constexpr int kPitch = kDim + 8;
constexpr float kScale = 0.125f;

__device__ void unpack(float (&values)[8], const __half* packed) {
  const uint4 chunk = *reinterpret_cast<const uint4*>(packed);
  const __half2* pairs = reinterpret_cast<const __half2*>(&chunk);
  for (int i = 0; i < 4; ++i) {
    const float2 pair = __half22float2(pairs[i]);
    values[2 * i] = pair.x;
    values[2 * i + 1] = pair.y;
  }
}

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
  const int row = thread / 16, column = thread % 16;
  float sums[4][4] = {};
  for (int p = 0; p < kDim; p += 8) {
    float key[4][8], query[8];
#pragma unroll
    for (int j = 0; j < 4; ++j) unpack(key[j], &tile_k[(column + 16 * j) * kPitch + p]);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      unpack(query, &tile_q[(row + 16 * i) * kPitch + p]);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
#pragma unroll
        for (int e = 0; e < 8; ++e) sums[i][j] += query[e] * key[j][e];
      }
    }
  }
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) {
      scores[(row + 16 * i) * seq + column + 16 * j] = kScale * sums[i][j];
    }
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
