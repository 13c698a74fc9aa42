// kernel: quantize_channels_int8/before/cuda
// flaw: each thread moves one value, 2 bytes in and 1 byte out
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kValues = 1;

__device__ std::int8_t to_int8(__half x, float multiplier) {
  const int rounded = __float2int_rn(__half2float(x) * multiplier);
  return static_cast<std::int8_t>(min(max(rounded, -127), 127));
}

__global__ void __launch_bounds__(kThreads)
    quantize_values(const __half* __restrict__ x, const float* __restrict__ multiplier,
                    std::int8_t* __restrict__ quantized, unsigned size, unsigned channels) {
  const unsigned i = (blockIdx.x * kThreads + threadIdx.x) * kValues;
  if (i >= size) return;
  const unsigned channel = i % channels;
  quantized[i] = to_int8(x[i], multiplier[channel]);
}

}  // namespace

extern "C" int quantize(const __half* x, const float* multiplier, std::int8_t* quantized,
                        std::int64_t rows, std::int64_t channels, void* stream) {
  const std::int64_t size = rows * channels;
  const std::int64_t threads = (size + kValues - 1) / kValues;
  const int blocks = static_cast<int>((threads + kThreads - 1) / kThreads);
  quantize_values<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      x, multiplier, quantized, static_cast<unsigned>(size), static_cast<unsigned>(channels));
  return static_cast<int>(cudaGetLastError());
}
