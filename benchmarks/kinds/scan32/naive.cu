// kernel: scan32/naive/cuda
// shapes: x (rows, 32) float32 contiguous -> y (rows, 32) float32; rows >= 0
// launch: grid ceil(rows / 128), block 128; one thread per row
// shared: 16 KB; the block's 128 rows
// work: 256 B and 32 FLOP per row, here as well
// weakness: rows of 32 words put a column into one bank, so 32 lanes take turns
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kRows = 128;
constexpr int kCols = 32;

__global__ void scan_in_shared(const float* __restrict__ x, float* __restrict__ y,
                               std::int64_t rows) {
  __shared__ float tile[kRows][kCols];
  const std::int64_t first = blockIdx.x * static_cast<std::int64_t>(kRows);
  const std::int64_t count = (rows - first < kRows ? rows - first : kRows) * kCols;
  float* flat = &tile[0][0];
  const float* source = x + first * kCols;
  for (int i = threadIdx.x; i < count; i += kRows) flat[i] = source[i];
  __syncthreads();

  float sum = 0.0f;
  for (int col = 0; col < kCols; ++col) {
    sum += tile[threadIdx.x][col];
    tile[threadIdx.x][col] = sum;
  }
  __syncthreads();

  float* target = y + first * kCols;
  for (int i = threadIdx.x; i < count; i += kRows) target[i] = flat[i];
}

}  // namespace

extern "C" int scan32(const float* x, float* y, std::int64_t rows, void* stream) {
  if (rows == 0) return 0;
  const auto blocks = static_cast<unsigned>((rows + kRows - 1) / kRows);
  scan_in_shared<<<blocks, kRows, 0, static_cast<cudaStream_t>(stream)>>>(x, y, rows);
  return static_cast<int>(cudaGetLastError());
}
