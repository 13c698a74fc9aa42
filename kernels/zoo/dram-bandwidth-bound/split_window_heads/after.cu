// kernel: split_window_heads/after/cuda
// change: a block stages 32 rows of 128 bytes in shared memory, so that it reads 4 KB in order
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kTokens = 64;
constexpr int kHeads = 8;
constexpr int kRow = 8;  // float4 in a row of 32 floats
constexpr int kThreads = 256;
constexpr int kGroup = kThreads / (kHeads * kRow);  // tokens of a block

__global__ void __launch_bounds__(kThreads)
    move_rows(const float4* __restrict__ x, float4* __restrict__ y) {
  const std::int64_t to = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  __shared__ float4 rows[kThreads];
  rows[threadIdx.x] = x[to];
  __syncthreads();
  const int lane = threadIdx.x % kRow;
  const int near = threadIdx.x / kRow % kGroup;
  const int head = threadIdx.x / (kRow * kGroup);
  const int token = blockIdx.x * kGroup % kTokens + near;
  const std::int64_t window = blockIdx.x / (kTokens / kGroup);
  y[((window * kHeads + head) * kTokens + token) * kRow + lane] =
      rows[(near * kHeads + head) * kRow + lane];
}

}  // namespace

extern "C" int split_heads(const float* x, float* y, std::int64_t windows, void* stream) {
  const unsigned blocks = static_cast<unsigned>(windows * kTokens * kHeads * kRow / kThreads);
  move_rows<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      reinterpret_cast<const float4*>(x), reinterpret_cast<float4*>(y));
  return static_cast<int>(cudaGetLastError());
}
