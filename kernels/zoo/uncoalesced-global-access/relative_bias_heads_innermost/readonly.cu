// kernel: relative_bias_heads_innermost/readonly/cuda
// change: the table is read through the read-only cache
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kLongest = 2048;

// The table holds a bias for each distance from -2047 to 2047 and each head.
__global__ void __launch_bounds__(kThreads)
    add_bias(const __half* __restrict__ scores, const float* __restrict__ table,
             __half* __restrict__ out, int heads, int size) {
  const int key = blockIdx.x * kThreads + threadIdx.x;
  const int query = blockIdx.y;
  const int head = blockIdx.z;
  if (key >= size) return;
  const std::int64_t at = (static_cast<std::int64_t>(head) * size + query) * size + key;
  const float bias = __ldg(table + (key - query + kLongest - 1) * heads + head);
  out[at] = __float2half(__half2float(scores[at]) + bias);
}

}  // namespace

extern "C" int add_relative_bias(const __half* scores, const float* table, __half* out,
                                 std::int64_t heads, std::int64_t size, void* stream) {
  const dim3 grid(static_cast<unsigned>((size + kThreads - 1) / kThreads),
                  static_cast<unsigned>(size), static_cast<unsigned>(heads));
  add_bias<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      scores, table, out, static_cast<int>(heads), static_cast<int>(size));
  return static_cast<int>(cudaGetLastError());
}
