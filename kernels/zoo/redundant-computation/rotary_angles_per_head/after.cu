// kernel: rotary_angles_per_head/after/cuda
// change: a thread computes its angle and scale once and applies them to all heads
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kPairs = 64;
constexpr int kTokens = 4;

__device__ float2 find_rotation(int token, int pair) {
  const float share = static_cast<float>(pair) / kPairs;
  const float angle = token * powf(10000.0f, -share);
  const float scale = powf((share + 0.4f) / 1.4f, (token - 4096) / 8192.0f);
  float sine, cosine;
  sincosf(angle, &sine, &cosine);
  return make_float2(scale * cosine, scale * sine);
}

__device__ __half2 turn(__half2 pair, float2 rotation) {
  const float2 p = __half22float2(pair);
  return __floats2half2_rn(p.x * rotation.x - p.y * rotation.y,
                           p.x * rotation.y + p.y * rotation.x);
}

__global__ void __launch_bounds__(kPairs* kTokens)
    rotate_pairs(const __half2* __restrict__ queries, __half2* __restrict__ rotated, int tokens,
                 int heads) {
  const int token = blockIdx.x * kTokens + threadIdx.y;
  const int pair = threadIdx.x;
  if (token >= tokens) return;
  const float2 rotation = find_rotation(token, pair);
#pragma unroll 4
  for (int head = 0; head < heads; ++head) {
    const std::int64_t i = (static_cast<std::int64_t>(token) * heads + head) * kPairs + pair;
    rotated[i] = turn(queries[i], rotation);
  }
}

}  // namespace

extern "C" int rotate(const __half2* queries, __half2* rotated, std::int64_t tokens,
                      std::int64_t heads, void* stream) {
  const int blocks = static_cast<int>((tokens + kTokens - 1) / kTokens);
  rotate_pairs<<<blocks, dim3(kPairs, kTokens), 0, static_cast<cudaStream_t>(stream)>>>(
      queries, rotated, static_cast<int>(tokens), static_cast<int>(heads));
  return static_cast<int>(cudaGetLastError());
}
