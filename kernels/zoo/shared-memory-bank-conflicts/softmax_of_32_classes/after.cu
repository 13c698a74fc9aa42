// kernel: softmax_of_32_classes/after/cuda
// change: rows of 33 words instead of 32
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kClasses = 32;
constexpr int kPitch = kClasses + 1;
constexpr int kRows = 128;

__global__ void __launch_bounds__(kRows)
    softmax_rows(const float* __restrict__ x, float* __restrict__ y, std::int64_t n) {
  __shared__ float tile[kRows * kPitch];
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kRows * kClasses;
  const int count = static_cast<int>(min(static_cast<std::int64_t>(kRows * kClasses),
                                         n * kClasses - first));
  for (int i = threadIdx.x; i < count; i += kRows) {
    tile[i / kClasses * kPitch + i % kClasses] = x[first + i];
  }
  __syncthreads();
  float* row = tile + threadIdx.x * kPitch;
  if (static_cast<int>(threadIdx.x) * kClasses < count) {
    float largest = row[0];
#pragma unroll 1
    for (int c = 1; c < kClasses; ++c) largest = fmaxf(largest, row[c]);
    float sum = 0.0f;
#pragma unroll 1
    for (int c = 0; c < kClasses; ++c) {
      row[c] = expf(row[c] - largest);
      sum += row[c];
    }
    const float scale = 1.0f / sum;
#pragma unroll 1
    for (int c = 0; c < kClasses; ++c) row[c] *= scale;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < count; i += kRows) {
    y[first + i] = tile[i / kClasses * kPitch + i % kClasses];
  }
}

}  // namespace

extern "C" int softmax(const float* x, float* y, std::int64_t n, void* stream) {
  const int blocks = static_cast<int>((n + kRows - 1) / kRows);
  softmax_rows<<<blocks, kRows, 0, static_cast<cudaStream_t>(stream)>>>(x, y, n);
  return static_cast<int>(cudaGetLastError());
}
