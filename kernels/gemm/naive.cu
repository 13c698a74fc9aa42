// kernel: gemm/naive/cuda
// shapes: a (m, k) float32 contiguous, b (k, n) float32 contiguous -> c (m, n) float32 contiguous; m >= 0, n >= 0, k >= 0
// launch: grid (ceil(n / 32), ceil(m / 8)), block (32, 8); one thread per output, x along the columns
// shared: none
// work: algorithm 2 k FLOP per output and 4 B per element of a, b and c; here two loads of 4 B per multiply-add, b coalesced, a the same for a warp
// roof: FP32 FMA units for the algorithm; this variant is held far below them by the loads that L1 serves
// tolerance: float32 by the reference's own error in float32, see kernel.yaml
// measured: 42.97 ms at xlarge, session 2026-11-21-gemm
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

namespace {

constexpr int kThreadsX = 32;
constexpr int kThreadsY = 8;
constexpr std::int64_t kMaxBlocksX = 2147483647;
constexpr std::int64_t kMaxBlocksY = 65535;

__global__ void gemm_thread_per_output(const float* a, const float* b, float* c, std::int64_t m,
                                       std::int64_t n, std::int64_t k) {
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column >= n) return;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.y) * blockDim.y;
  std::int64_t row = static_cast<std::int64_t>(blockIdx.y) * blockDim.y + threadIdx.y;
  for (; row < m; row += stride) {
    float sum = 0.0f;
    for (std::int64_t l = 0; l < k; ++l) {
      sum += a[row * k + l] * b[l * n + column];
    }
    c[row * n + column] = sum;
  }
}

}  // namespace

extern "C" int gemm(const float* a, const float* b, float* c, std::int64_t m, std::int64_t n,
                    std::int64_t k, void* stream) {
  if (m == 0 || n == 0) return 0;
  const std::int64_t blocks_x = (n + kThreadsX - 1) / kThreadsX;
  const std::int64_t blocks_y = (m + kThreadsY - 1) / kThreadsY;
  if (blocks_x > kMaxBlocksX) return static_cast<int>(cudaErrorInvalidValue);
  const dim3 grid(static_cast<unsigned>(blocks_x),
                  static_cast<unsigned>(std::min(blocks_y, kMaxBlocksY)));
  gemm_thread_per_output<<<grid, dim3(kThreadsX, kThreadsY), 0,
                           static_cast<cudaStream_t>(stream)>>>(a, b, c, m, n, k);
  return static_cast<int>(cudaGetLastError());
}
