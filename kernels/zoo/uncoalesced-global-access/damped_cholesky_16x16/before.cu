// kernel: damped_cholesky_16x16/before/cuda
// flaw: a thread factors a matrix by itself in global memory, 1 KiB from its neighbour's
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 128;
constexpr int kOrder = 16;
constexpr float kDamping = 4.0f;

__global__ void __launch_bounds__(kThreads)
    factor(const float* __restrict__ matrices, float* __restrict__ factors, std::int64_t count) {
  const std::int64_t matrix = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (matrix >= count) return;
  const float* a = matrices + matrix * kOrder * kOrder;
  float* l = factors + matrix * kOrder * kOrder;
  for (int j = 0; j < kOrder; ++j) {
    for (int i = 0; i < j; ++i) l[i * kOrder + j] = 0.0f;
    float pivot = a[j * kOrder + j] + kDamping;
    for (int k = 0; k < j; ++k) pivot -= l[j * kOrder + k] * l[j * kOrder + k];
    pivot = sqrtf(pivot);
    l[j * kOrder + j] = pivot;
    for (int i = j + 1; i < kOrder; ++i) {
      float sum = a[i * kOrder + j];
      for (int k = 0; k < j; ++k) sum -= l[i * kOrder + k] * l[j * kOrder + k];
      l[i * kOrder + j] = sum / pivot;
    }
  }
}

}  // namespace

extern "C" int damped_cholesky(const float* matrices, float* factors, std::int64_t count,
                               void* stream) {
  const unsigned blocks = static_cast<unsigned>((count + kThreads - 1) / kThreads);
  factor<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(matrices, factors, count);
  return static_cast<int>(cudaGetLastError());
}
