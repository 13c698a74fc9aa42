// kernel: dictionary_decode_constants/sixteen-codes/cuda
// change: 4 times as many codes for each thread
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kEntries = 256;
constexpr int kPerThread = 4;

__constant__ float dictionary_values[kEntries];

__global__ void __launch_bounds__(kThreads)
    decode_column(const uchar4* __restrict__ codes, float4* __restrict__ column, int n) {
  const int first = blockIdx.x * kThreads * kPerThread + threadIdx.x;
  uchar4 code[kPerThread];
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) {
    const int i = first + k * kThreads;
    code[k] = i < n ? codes[i] : make_uchar4(0, 0, 0, 0);
  }
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) {
    const int i = first + k * kThreads;
    const float4 value = make_float4(dictionary_values[code[k].x], dictionary_values[code[k].y],
                                     dictionary_values[code[k].z], dictionary_values[code[k].w]);
    if (i < n) column[i] = value;
  }
}

}  // namespace

extern "C" int decode(const uchar4* codes, const float* dictionary, float4* column, std::int64_t n,
                      void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  cudaMemcpyToSymbolAsync(dictionary_values, dictionary, sizeof(dictionary_values), 0,
                          cudaMemcpyDeviceToDevice, on);
  constexpr int kBlock = kThreads * kPerThread;
  const int blocks = static_cast<int>((n + kBlock - 1) / kBlock);
  decode_column<<<blocks, kThreads, 0, on>>>(codes, column, static_cast<int>(n));
  return static_cast<int>(cudaGetLastError());
}
