// kernel: fourier_series_sum/before/cuda
// flaw: a sine and a cosine for each harmonic
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kHarmonics = 64;

__global__ void __launch_bounds__(kThreads)
    synthesize(const float* __restrict__ angles, const float* __restrict__ cosines,
               const float* __restrict__ sines, float* __restrict__ values, int n) {
  __shared__ float2 factors[kHarmonics];
  if (threadIdx.x < kHarmonics) {
    factors[threadIdx.x] = make_float2(cosines[threadIdx.x], sines[threadIdx.x]);
  }
  __syncthreads();
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= n) return;
  const float angle = angles[i];
  float sum = 0.0f;
  float sine, cosine;
#pragma unroll
  for (int k = 0; k < kHarmonics; ++k) {
    __sincosf((k + 1) * angle, &sine, &cosine);
    sum += factors[k].x * cosine + factors[k].y * sine;
  }
  values[i] = sum;
}

}  // namespace

extern "C" int sum_series(const float* angles, const float* cosines, const float* sines,
                          float* values, std::int64_t n, void* stream) {
  const int blocks = static_cast<int>((n + kThreads - 1) / kThreads);
  synthesize<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      angles, cosines, sines, values, static_cast<int>(n));
  return static_cast<int>(cudaGetLastError());
}
