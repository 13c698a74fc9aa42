// kernel: nbody_softened_literals/before/cuda
// flaw: the softening and the 1.0 of the reciprocal root are double
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    sum_sources(const float4* __restrict__ targets, const float4* __restrict__ sources,
                float4* __restrict__ field, int n, int m) {
  __shared__ float4 tile[kThreads];
  const int i = blockIdx.x * kThreads + threadIdx.x;
  const float4 target = i < n ? targets[i] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  for (int first = 0; first < m; first += kThreads) {
    const int count = min(kThreads, m - first);
    __syncthreads();
    if (threadIdx.x < count) tile[threadIdx.x] = sources[first + threadIdx.x];
    __syncthreads();
#pragma unroll 4
    for (int j = 0; j < count; ++j) {
      const float4 source = tile[j];
      const float dx = source.x - target.x;
      const float dy = source.y - target.y;
      const float dz = source.z - target.z;
      const float inverse = 1.0 / sqrt(dx * dx + dy * dy + dz * dz + 0.01);
      const float potential = source.w * inverse;
      const float pull = potential * inverse * inverse;
      sum.x += pull * dx;
      sum.y += pull * dy;
      sum.z += pull * dz;
      sum.w += potential;
    }
  }
  sum.w *= target.w;
  if (i < n) field[i] = sum;
}

}  // namespace

extern "C" int compute_field(const float4* targets, const float4* sources, float4* field,
                             std::int64_t n, std::int64_t m, void* stream) {
  const int blocks = static_cast<int>((n + kThreads - 1) / kThreads);
  sum_sources<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      targets, sources, field, static_cast<int>(n), static_cast<int>(m));
  return static_cast<int>(cudaGetLastError());
}
