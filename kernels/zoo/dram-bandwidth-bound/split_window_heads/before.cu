// kernel: split_window_heads/before/cuda
// form: lanes read rows of 128 bytes that are 1 KB apart
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kTokens = 64;
constexpr int kHeads = 8;
constexpr int kRow = 8;  // float4 in a row of 32 floats
constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    move_rows(const float4* __restrict__ x, float4* __restrict__ y) {
  const std::int64_t to = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int lane = to % kRow;
  const int token = to / kRow % kTokens;
  const int head = to / (kRow * kTokens) % kHeads;
  const std::int64_t window = to / (kRow * kTokens * kHeads);
  y[to] = x[((window * kTokens + token) * kHeads + head) * kRow + lane];
}

}  // namespace

extern "C" int split_heads(const float* x, float* y, std::int64_t windows, void* stream) {
  const unsigned blocks = static_cast<unsigned>(windows * kTokens * kHeads * kRow / kThreads);
  move_rows<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      reinterpret_cast<const float4*>(x), reinterpret_cast<float4*>(y));
  return static_cast<int>(cudaGetLastError());
}
