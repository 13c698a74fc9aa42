// kernel: relative_bias_heads_innermost/after/cuda
// change: a block stages the biases of its 271 distances for 16 queries
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kLongest = 2048;
constexpr int kQueries = 16;  // of a block
constexpr int kBand = kThreads + kQueries - 1;

// The table holds a bias for each distance from -2047 to 2047 and each head.
__global__ void __launch_bounds__(kThreads)
    add_bias(const __half* __restrict__ scores, const float* __restrict__ table,
             __half* __restrict__ out, int heads, int size) {
  __shared__ float band[kBand];
  const int head = blockIdx.z;
  const int first_query = blockIdx.y * kQueries;
  const int lowest = static_cast<int>(blockIdx.x) * kThreads - (first_query + kQueries - 1);
  for (int i = threadIdx.x; i < kBand; i += kThreads) {
    const int row = min(max(lowest + i + kLongest - 1, 0), 2 * kLongest - 2);
    band[i] = table[row * heads + head];
  }
  __syncthreads();
  const int key = blockIdx.x * kThreads + threadIdx.x;
  if (key >= size) return;
  const int last = min(first_query + kQueries, size);
  for (int query = first_query; query < last; ++query) {
    const std::int64_t at = (static_cast<std::int64_t>(head) * size + query) * size + key;
    out[at] = __float2half(__half2float(scores[at]) + band[key - query - lowest]);
  }
}

}  // namespace

extern "C" int add_relative_bias(const __half* scores, const float* table, __half* out,
                                 std::int64_t heads, std::int64_t size, void* stream) {
  const dim3 grid(static_cast<unsigned>((size + kThreads - 1) / kThreads),
                  static_cast<unsigned>((size + kQueries - 1) / kQueries),
                  static_cast<unsigned>(heads));
  add_bias<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      scores, table, out, static_cast<int>(heads), static_cast<int>(size));
  return static_cast<int>(cudaGetLastError());
}
