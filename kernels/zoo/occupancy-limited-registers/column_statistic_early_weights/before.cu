// kernel: column_statistic_early_weights/before/cuda
// flaw: the coefficients of the last step are loaded first and occupy 96 registers during the sum
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
  float weight[kTerms];
#pragma unroll
  for (int k = 0; k < kTerms; ++k) {
    const float root = raw[static_cast<std::int64_t>(k) * cols + c];
    weight[k] = root * root;
  }
  float sum = 0.f;
#pragma unroll 2
  for (int r = 0; r < rows; ++r) sum += x[static_cast<std::int64_t>(r) * cols + c];
  const float mean = sum / static_cast<float>(rows);
  const float t = mean / (1.f + fabsf(mean));
  float value = 0.f;
#pragma unroll
  for (int k = kTerms - 1; k >= 0; --k) value = fmaf(value, t, weight[k]);
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
