// kernel: sensor_polynomial_block_1024/after/cuda
// change: blocks of 1024 -> 256 threads
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kTerms = 28;
constexpr int kSamples = 8;

__global__ void __launch_bounds__(kThreads)
    evaluate(const float* __restrict__ samples, const float* __restrict__ coefficients,
             float* __restrict__ values, int n) {
  float coefficient[kTerms];
#pragma unroll
  for (int k = 0; k < kTerms; ++k) coefficient[k] = coefficients[k];
  int i = blockIdx.x * kThreads * kSamples + threadIdx.x;
#pragma unroll 1
  for (int sample = 0; sample < kSamples && i < n; ++sample, i += kThreads) {
    const float x = samples[i];
    float value = coefficient[0];
#pragma unroll
    for (int k = 1; k < kTerms; ++k) value = fmaf(value, x, coefficient[k]);
    values[i] = value;
  }
}

}  // namespace

extern "C" int calibrate(const float* samples, const float* coefficients, float* values,
                         std::int64_t n, void* stream) {
  const int blocks = static_cast<int>((n + kThreads * kSamples - 1) / (kThreads * kSamples));
  evaluate<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      samples, coefficients, values, static_cast<int>(n));
  return static_cast<int>(cudaGetLastError());
}
