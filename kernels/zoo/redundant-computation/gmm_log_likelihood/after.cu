// kernel: gmm_log_likelihood/after/cuda
// change: each block computes the inverse variances and log normalisers once into shared memory
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kDims = 16;
constexpr float kVarianceFloor = 0.25f;
constexpr float kTwoPi = 6.28318530717958648f;

__global__ void __launch_bounds__(kThreads)
    mixture_density(const float* __restrict__ samples, const float* __restrict__ mean,
                    const float* __restrict__ variance, const float* __restrict__ log_weight,
                    float* __restrict__ log_likelihood, std::int64_t n, int components) {
  extern __shared__ float inverse[];
  float* const constant = inverse + components * kDims;
  for (int e = threadIdx.x; e < components * kDims; e += kThreads) {
    inverse[e] = 1.0f / (variance[e] + kVarianceFloor);
  }
  for (int c = threadIdx.x; c < components; c += kThreads) {
    float log_determinant = 0.0f;
    for (int d = 0; d < kDims; ++d) {
      log_determinant += logf(kTwoPi * (variance[c * kDims + d] + kVarianceFloor));
    }
    constant[c] = log_weight[c] - 0.5f * log_determinant;
  }
  __syncthreads();
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  float x[kDims];
#pragma unroll
  for (int d = 0; d < kDims; ++d) x[d] = samples[d * n + i];
  float largest = -INFINITY;
  float sum = 0.0f;
  for (int c = 0; c < components; ++c) {
    float exponent = 0.0f;
#pragma unroll
    for (int d = 0; d < kDims; ++d) {
      const float difference = x[d] - mean[c * kDims + d];
      exponent += difference * difference * inverse[c * kDims + d];
    }
    const float density = constant[c] - 0.5f * exponent;
    const float top = fmaxf(largest, density);
    sum = sum * expf(largest - top) + expf(density - top);
    largest = top;
  }
  log_likelihood[i] = largest + logf(sum);
}

}  // namespace

extern "C" int gmm_log_likelihood(const float* samples, const float* mean, const float* variance,
                                  const float* log_weight, float* log_likelihood, std::int64_t n,
                                  std::int64_t k, void* stream) {
  const unsigned blocks = static_cast<unsigned>((n + kThreads - 1) / kThreads);
  const unsigned bytes = static_cast<unsigned>(k * (kDims + 1) * sizeof(float));
  mixture_density<<<blocks, kThreads, bytes, static_cast<cudaStream_t>(stream)>>>(
      samples, mean, variance, log_weight, log_likelihood, n, static_cast<int>(k));
  return static_cast<int>(cudaGetLastError());
}
