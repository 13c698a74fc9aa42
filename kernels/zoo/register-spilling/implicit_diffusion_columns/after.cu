// kernel: implicit_diffusion_columns/after/cuda
// change: no number of resident blocks is asked for, so that both arrays stay in registers
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 128;
constexpr int kLevels = 64;

__global__ void __launch_bounds__(kThreads)
    diffuse_columns(const float* __restrict__ field, const float* __restrict__ rate,
                    float* __restrict__ result, std::int64_t n) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  const float side = -rate[i];
  const float centre = 1.0f - 2.0f * side;
  float ratio[kLevels];
  float value[kLevels];
  ratio[0] = side / centre;
  value[0] = field[i] / centre;
#pragma unroll
  for (int level = 1; level < kLevels; ++level) {
    const float scale = 1.0f / (centre - side * ratio[level - 1]);
    ratio[level] = side * scale;
    value[level] = (field[level * n + i] - side * value[level - 1]) * scale;
  }
  float x = value[kLevels - 1];
  result[(kLevels - 1) * n + i] = x;
#pragma unroll
  for (int level = kLevels - 2; level >= 0; --level) {
    x = value[level] - ratio[level] * x;
    result[level * n + i] = x;
  }
}

}  // namespace

extern "C" int implicit_diffusion(const float* field, const float* rate, float* result,
                                  std::int64_t n, void* stream) {
  const unsigned blocks = static_cast<unsigned>((n + kThreads - 1) / kThreads);
  diffuse_columns<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(field, rate, result,
                                                                              n);
  return static_cast<int>(cudaGetLastError());
}
