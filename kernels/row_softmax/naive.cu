// kernel: row_softmax/naive/cuda
// shapes: x (rows, cols) float32 contiguous -> y (rows, cols) float32 contiguous; rows >= 0, cols >= 0
// launch: grid ceil(rows / 128), block 128; one thread per row
// shared: none
// work: algorithm 8 B and 5 FLOP per element; here 20 B requested (x read twice, y written twice and read once), each 4 B access of a warp in its own 32 B sector, 4 FLOP and one expf
// roof: DRAM bandwidth for the algorithm; this variant is held far below it by uncoalesced sectors and by too few threads
// tolerance: float32 atol 1.0e-9 rtol 1.0e-4 matched_ratio 1.0 max_error 1.0e-4
// measured: 11.38 ms at xlarge, session 2026-11-21-h100
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

namespace {

constexpr int kThreads = 128;
constexpr std::int64_t kMaxBlocks = 2147483647;

__device__ void softmax_row(const float* x, float* y, std::int64_t cols) {
  float row_max = x[0];
  for (std::int64_t i = 1; i < cols; ++i) {
    row_max = fmaxf(row_max, x[i]);
  }

  // Subtracting the maximum keeps every exponent <= 0, so nothing overflows.
  float sum = 0.0f;
  for (std::int64_t i = 0; i < cols; ++i) {
    const float e = expf(x[i] - row_max);
    y[i] = e;
    sum += e;
  }

  for (std::int64_t i = 0; i < cols; ++i) {
    y[i] /= sum;
  }
}

__global__ void softmax_thread_per_row(const float* x, float* y, std::int64_t rows,
                                       std::int64_t cols) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; row < rows; row += stride) {
    softmax_row(x + row * cols, y + row * cols, cols);
  }
}

}  // namespace

extern "C" int row_softmax(const float* x, float* y, std::int64_t rows, std::int64_t cols,
                           void* stream) {
  if (rows == 0 || cols == 0) return 0;
  const auto blocks =
      static_cast<unsigned>(std::min((rows + kThreads - 1) / kThreads, kMaxBlocks));
  softmax_thread_per_row<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(x, y, rows,
                                                                                     cols);
  return static_cast<int>(cudaGetLastError());
}
