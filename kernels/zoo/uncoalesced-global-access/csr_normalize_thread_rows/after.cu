// kernel: csr_normalize_thread_rows/after/cuda
// change: a warp walks each row, and its lanes read neighbouring entries
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kSpacing = 64;
constexpr int kWarp = 32;

/// Start of a row: row starts are kept as offsets from an even spacing.
__device__ std::int64_t row_start(const int* __restrict__ offsets, std::int64_t row,
                                  std::int64_t rows) {
  if (row == 0 || row == rows) return row * kSpacing;
  return row * kSpacing + offsets[row];
}

__global__ void __launch_bounds__(kThreads)
    normalize_rows(const float* __restrict__ values, const int* __restrict__ offsets,
                   float* __restrict__ scaled, std::int64_t rows) {
  const std::int64_t row =
      (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) / kWarp;
  const int lane = threadIdx.x % kWarp;
  if (row >= rows) return;
  const std::int64_t begin = row_start(offsets, row, rows);
  const std::int64_t end = row_start(offsets, row + 1, rows);
  float sum = 0.0f;
  for (std::int64_t i = begin + lane; i < end; i += kWarp) sum += values[i];
  for (int step = kWarp / 2; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  const float inverse = sum > 0.0f ? 1.0f / sum : 0.0f;
  for (std::int64_t i = begin + lane; i < end; i += kWarp) scaled[i] = values[i] * inverse;
}

}  // namespace

extern "C" int normalize(const float* values, const int* offsets, float* scaled, std::int64_t rows,
                         void* stream) {
  const std::int64_t blocks = (rows * kWarp + kThreads - 1) / kThreads;
  normalize_rows<<<static_cast<unsigned>(blocks), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      values, offsets, scaled, rows);
  return static_cast<int>(cudaGetLastError());
}
