// kernel: column_statistic_early_weights/after/cuda
// change: the coefficients are loaded and prepared after the sum, when they are used
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 128;
constexpr int kTerms = 96;

__global__ void __launch_bounds__(kThreads)
    score_columns(const float* __restrict__ x, const float* __restrict__ raw,
                  float* __restrict__ score, int rows, int cols) {
  const int c = blockIdx.x * kThreads + threadIdx.x;
  if (c >= cols) return;
  float sum = 0.f;
#pragma unroll 2
  for (int r = 0; r < rows; ++r) sum += x[static_cast<std::int64_t>(r) * cols + c];
  const float mean = sum / static_cast<float>(rows);
  const float t = mean / (1.f + fabsf(mean));
  float value = 0.f;
#pragma unroll 4
  for (int k = kTerms - 1; k >= 0; --k) {
    const float root = raw[static_cast<std::int64_t>(k) * cols + c];
    value = fmaf(value, t, root * root);
  }
  score[c] = value;
}

}  // namespace

extern "C" int column_score(const float* x, const float* raw, float* score, std::int64_t rows,
                            std::int64_t cols, void* stream) {
  const int blocks = static_cast<int>((cols + kThreads - 1) / kThreads);
  score_columns<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      x, raw, score, static_cast<int>(rows), static_cast<int>(cols));
  return static_cast<int>(cudaGetLastError());
}
