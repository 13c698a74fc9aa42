// kernel: layer_scale_residual_half/before/cuda
// flaw: each thread moves one half, 2 bytes for each access
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kValues = 1;

__device__ __half combine(__half x, __half residual, __half bias, __half gamma) {
  const float sum = __half2float(x) + __half2float(bias);
  return __float2half(__half2float(residual) + __half2float(gamma) * sum);
}

__global__ void __launch_bounds__(kThreads)
    add_scaled_residual(const __half* __restrict__ x, const __half* __restrict__ residual,
                        const __half* __restrict__ bias, const __half* __restrict__ gamma,
                        __half* __restrict__ y, unsigned size, unsigned channels) {
  const unsigned i = (blockIdx.x * kThreads + threadIdx.x) * kValues;
  if (i >= size) return;
  const unsigned channel = i % channels;
  y[i] = combine(x[i], residual[i], bias[channel], gamma[channel]);
}

}  // namespace

extern "C" int add_scaled(const __half* x, const __half* residual, const __half* bias,
                          const __half* gamma, __half* y, std::int64_t rows,
                          std::int64_t channels, void* stream) {
  const std::int64_t size = rows * channels;
  const std::int64_t threads = (size + kValues - 1) / kValues;
  const int blocks = static_cast<int>((threads + kThreads - 1) / kThreads);
  add_scaled_residual<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      x, residual, bias, gamma, y, static_cast<unsigned>(size), static_cast<unsigned>(channels));
  return static_cast<int>(cudaGetLastError());
}
