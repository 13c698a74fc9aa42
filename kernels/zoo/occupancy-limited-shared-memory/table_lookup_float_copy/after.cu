// kernel: table_lookup_float_copy/after/cuda
// change: the table stays in half precision in shared memory, 128 KB -> 64 KB
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 132 * 3;
constexpr int kEntries = 32768;
using Entry = __half;
constexpr int kBytes = kEntries * static_cast<int>(sizeof(Entry));

__global__ void __launch_bounds__(kThreads)
    decode_codes(const int* __restrict__ codes, const __half* __restrict__ table,
                 float* __restrict__ values, int n) {
  extern __shared__ Entry entries[];
  for (int e = threadIdx.x; e < kEntries; e += kThreads) entries[e] = static_cast<Entry>(table[e]);
  __syncthreads();
  for (int i = blockIdx.x * kThreads + threadIdx.x; i < n; i += kBlocks * kThreads) {
    values[i] = static_cast<float>(entries[codes[i]]);
  }
}

}  // namespace

extern "C" int decode(const int* codes, const void* table, float* values, std::int64_t n,
                      void* stream) {
  cudaFuncSetAttribute(decode_codes, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  decode_codes<<<kBlocks, kThreads, kBytes, static_cast<cudaStream_t>(stream)>>>(
      codes, static_cast<const __half*>(table), values, static_cast<int>(n));
  return static_cast<int>(cudaGetLastError());
}
