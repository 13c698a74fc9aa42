// kernel: damped_cholesky_16x16/after/cuda
// change: a warp factors a matrix in shared memory, one row per lane
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 128;
constexpr int kOrder = 16;
constexpr float kDamping = 4.0f;
constexpr int kWarps = kThreads / 32;

__global__ void __launch_bounds__(kThreads)
    factor(const float* __restrict__ matrices, float* __restrict__ factors, std::int64_t count) {
  __shared__ float tiles[kWarps][kOrder][kOrder + 1];
  const std::int64_t matrix = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (matrix >= count) return;
  const int lane = threadIdx.x % 32;
  const float* a = matrices + matrix * kOrder * kOrder;
  float* l = factors + matrix * kOrder * kOrder;
  auto& tile = tiles[threadIdx.x / 32];
  for (int i = lane; i < kOrder * kOrder; i += 32) tile[i / kOrder][i % kOrder] = a[i];
  __syncwarp();
  for (int j = 0; j < kOrder; ++j) {
    float sum = 0.0f;
    if (lane >= j && lane < kOrder) {
      sum = tile[lane][j] + (lane == j ? kDamping : 0.0f);
      for (int k = 0; k < j; ++k) sum -= tile[lane][k] * tile[j][k];
    }
    const float pivot = sqrtf(__shfl_sync(0xffffffffu, sum, j));
    if (lane >= j && lane < kOrder) tile[lane][j] = lane == j ? pivot : sum / pivot;
    __syncwarp();
  }
  for (int i = lane; i < kOrder * kOrder; i += 32) {
    l[i] = i % kOrder <= i / kOrder ? tile[i / kOrder][i % kOrder] : 0.0f;
  }
}

}  // namespace

extern "C" int damped_cholesky(const float* matrices, float* factors, std::int64_t count,
                               void* stream) {
  const unsigned blocks = static_cast<unsigned>((count + kWarps - 1) / kWarps);
  factor<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(matrices, factors, count);
  return static_cast<int>(cudaGetLastError());
}
