// kernel: dictionary_decode_constants/before/cuda
// computes: the dictionary value of each code of a column
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kEntries = 256;

__constant__ float dictionary_values[kEntries];

__global__ void __launch_bounds__(kThreads)
    decode_column(const uchar4* __restrict__ codes, float4* __restrict__ column, int n) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= n) return;
  const uchar4 code = codes[i];
  column[i] = make_float4(dictionary_values[code.x], dictionary_values[code.y],
                          dictionary_values[code.z], dictionary_values[code.w]);
}

}  // namespace

extern "C" int decode(const uchar4* codes, const float* dictionary, float4* column, std::int64_t n,
                      void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  cudaMemcpyToSymbolAsync(dictionary_values, dictionary, sizeof(dictionary_values), 0,
                          cudaMemcpyDeviceToDevice, on);
  const int blocks = static_cast<int>((n + kThreads - 1) / kThreads);
  decode_column<<<blocks, kThreads, 0, on>>>(codes, column, static_cast<int>(n));
  return static_cast<int>(cudaGetLastError());
}
