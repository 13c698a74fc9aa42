// kernel: adam_step_4_bytes/after/cuda
// change: 16 bytes for each access instead of 4; each thread still has 4 elements
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
      (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kItems;
  const float4 g = *reinterpret_cast<const float4*>(grads + first);
  float4 p = *reinterpret_cast<const float4*>(params + first);
  float4 m = *reinterpret_cast<const float4*>(means + first);
  float4 s = *reinterpret_cast<const float4*>(squares + first);
  step(g.x, p.x, m.x, s.x);
  step(g.y, p.y, m.y, s.y);
  step(g.z, p.z, m.z, s.z);
  step(g.w, p.w, m.w, s.w);
  *reinterpret_cast<float4*>(params + first) = p;
  *reinterpret_cast<float4*>(means + first) = m;
  *reinterpret_cast<float4*>(squares + first) = s;
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
