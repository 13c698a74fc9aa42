// kernel: alibi_slope_pow/before/cuda
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr float kFactor = 0.08838834764f;  // of scores: 1 / sqrt(128)

// Each head has a slope, a power of two, by which far keys are lowered.
__global__ void __launch_bounds__(kThreads)
    add_bias(const __half* __restrict__ scores, __half* __restrict__ out, int queries, int keys) {
  const int key = blockIdx.x * kThreads + threadIdx.x;
  const int query = blockIdx.y;
  const int head = blockIdx.z;
  if (key >= keys) return;
  const std::int64_t at = (static_cast<std::int64_t>(head) * queries + query) * keys + key;
  const float slope = pow(2.0, -8.0 * (head + 1) / gridDim.z);
  const int distance = query + keys - queries - key;
  out[at] = __float2half(__half2float(scores[at]) * kFactor - slope * abs(distance));
}

}  // namespace

extern "C" int add_alibi(const __half* scores, __half* out, std::int64_t heads,
                         std::int64_t queries, std::int64_t keys, void* stream) {
  const dim3 grid(static_cast<unsigned>((keys + kThreads - 1) / kThreads),
                  static_cast<unsigned>(queries), static_cast<unsigned>(heads));
  add_bias<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      scores, out, static_cast<int>(queries), static_cast<int>(keys));
  return static_cast<int>(cudaGetLastError());
}
