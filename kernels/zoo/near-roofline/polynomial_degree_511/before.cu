// kernel: polynomial_degree_511/before/cuda
// form: 8 independent chains a thread, coefficients in shared memory
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kItems = 8;
constexpr int kTerms = 512;
constexpr int kUnroll = 8;

__global__ void __launch_bounds__(kThreads)
    evaluate_points(const float* __restrict__ x, const float* __restrict__ coefficients,
                    float* __restrict__ y, std::int64_t n) {
  __shared__ __align__(16) float terms[kTerms];
  for (int i = threadIdx.x; i < kTerms; i += kThreads) terms[i] = coefficients[i];
  __syncthreads();
  const std::int64_t first =
      static_cast<std::int64_t>(blockIdx.x) * kThreads * kItems + threadIdx.x;
  float at[kItems], value[kItems] = {};
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    at[k] = first + k * kThreads < n ? x[first + k * kThreads] : 0.0f;
  }
#pragma unroll kUnroll
  for (int i = 0; i < kTerms; ++i) {
#pragma unroll
    for (int k = 0; k < kItems; ++k) value[k] = value[k] * at[k] + terms[i];
  }
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    if (first + k * kThreads < n) y[first + k * kThreads] = value[k];
  }
}

}  // namespace

extern "C" int evaluate(const float* x, const float* coefficients, float* y, std::int64_t n,
                        void* stream) {
  constexpr int kPerBlock = kThreads * kItems;
  const unsigned blocks = static_cast<unsigned>((n + kPerBlock - 1) / kPerBlock);
  evaluate_points<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(x, coefficients, y,
                                                                              n);
  return static_cast<int>(cudaGetLastError());
}
