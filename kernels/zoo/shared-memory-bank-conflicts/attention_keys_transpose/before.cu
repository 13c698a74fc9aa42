// kernel: attention_keys_transpose/before/cuda
// flaw: the lanes of a warp read one column of a tile whose rows have 32 words: one bank
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kTile = 32;
constexpr int kThreads = 256;
constexpr int kStep = kThreads / kTile;

__global__ void __launch_bounds__(kThreads)
    turn(const float* __restrict__ keys, float* __restrict__ turned, int seq, int dim) {
  __shared__ float tile[kTile][kTile];
  const std::int64_t head = static_cast<std::int64_t>(blockIdx.z) * seq * dim;
  const int lane = threadIdx.x % kTile;
  const int first_s = blockIdx.x * kTile;
  const int first_d = blockIdx.y * kTile;
  for (int r = threadIdx.x / kTile; r < kTile; r += kStep) {
    if (first_s + r < seq && first_d + lane < dim) {
      tile[r][lane] = keys[head + (first_s + r) * dim + first_d + lane];
    }
  }
  __syncthreads();
  for (int r = threadIdx.x / kTile; r < kTile; r += kStep) {
    if (first_d + r < dim && first_s + lane < seq) {
      turned[head + (first_d + r) * seq + first_s + lane] = tile[lane][r];
    }
  }
}

}  // namespace

extern "C" int turn_keys(const float* keys, float* turned, std::int64_t heads, std::int64_t seq,
                         std::int64_t dim, void* stream) {
  const dim3 grid(static_cast<unsigned>((seq + kTile - 1) / kTile),
                  static_cast<unsigned>((dim + kTile - 1) / kTile), static_cast<unsigned>(heads));
  turn<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      keys, turned, static_cast<int>(seq), static_cast<int>(dim));
  return static_cast<int>(cudaGetLastError());
}
