// kernel: adam_step_4_bytes/before/cuda
// form: coalesced accesses of 4 bytes, 4 in flight for each array
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kItems = 4;

__device__ void step(float grad, float& param, float& mean, float& square) {
  mean = 0.875f * mean + 0.125f * grad;
  square = 0.984375f * square + 0.015625f * grad * grad;
  param -= 0.0078125f * mean / (sqrtf(square) + 1e-4f);
}

// n is a multiple of 1024.
__global__ void __launch_bounds__(kThreads)
    update(const float* __restrict__ grads, float* __restrict__ params,
           float* __restrict__ means, float* __restrict__ squares) {
  const std::int64_t first =
      static_cast<std::int64_t>(blockIdx.x) * kThreads * kItems + threadIdx.x;
  float g[kItems], p[kItems], m[kItems], s[kItems];
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    g[k] = grads[first + k * kThreads];
    p[k] = params[first + k * kThreads];
    m[k] = means[first + k * kThreads];
    s[k] = squares[first + k * kThreads];
  }
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    step(g[k], p[k], m[k], s[k]);
    params[first + k * kThreads] = p[k];
    means[first + k * kThreads] = m[k];
    squares[first + k * kThreads] = s[k];
  }
}

}  // namespace

extern "C" int adam_step(const float* grads, const float* old_params, const float* old_means,
                         const float* old_squares, float* params, float* means, float* squares,
                         std::int64_t n, void* stream) {
  (void)old_params;
  (void)old_means;
  (void)old_squares;
  const unsigned blocks = static_cast<unsigned>(n / (kThreads * kItems));
  update<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(grads, params, means,
                                                                      squares);
  return static_cast<int>(cudaGetLastError());
}
