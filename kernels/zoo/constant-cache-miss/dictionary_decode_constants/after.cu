// kernel: dictionary_decode_constants/after/cuda
// change: each block copies the dictionary to shared memory instead of constant memory
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kEntries = 256;

__global__ void __launch_bounds__(kThreads)
    decode_column(const uchar4* __restrict__ codes, const float* __restrict__ dictionary,
                  float4* __restrict__ column, int n) {
  __shared__ float dictionary_values[kEntries];
  for (int k = threadIdx.x; k < kEntries; k += kThreads) dictionary_values[k] = dictionary[k];
  __syncthreads();
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
  const int blocks = static_cast<int>((n + kThreads - 1) / kThreads);
  decode_column<<<blocks, kThreads, 0, on>>>(codes, dictionary, column, static_cast<int>(n));
  return static_cast<int>(cudaGetLastError());
}
