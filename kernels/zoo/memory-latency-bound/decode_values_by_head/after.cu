// kernel: decode_values_by_head/after/cuda
// change: 8 groups of two warps share the sequence and add their sums at the end
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kPairs = 64;
constexpr int kGroups = 8;

__global__ void __launch_bounds__(kPairs * kGroups)
    weigh_values(const float* __restrict__ weights, const __half2* __restrict__ values,
                 float2* __restrict__ result, std::int64_t length) {
  const std::int64_t head = blockIdx.x;
  const float* weight = weights + head * length;
  const __half2* value = values + head * length * kPairs + threadIdx.x;
  float2 sum = make_float2(0.0f, 0.0f);
  for (std::int64_t i = threadIdx.y; i < length; i += kGroups) {
    const float2 pair = __half22float2(value[i * kPairs]);
    sum.x += weight[i] * pair.x;
    sum.y += weight[i] * pair.y;
  }
  __shared__ float2 partial[kGroups][kPairs];
  partial[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0) return;
  for (int group = 1; group < kGroups; ++group) {
    sum.x += partial[group][threadIdx.x].x;
    sum.y += partial[group][threadIdx.x].y;
  }
  result[head * kPairs + threadIdx.x] = sum;
}

}  // namespace

extern "C" int decode_values(const float* weights, const __half* values, float* result,
                             std::int64_t heads, std::int64_t length, void* stream) {
  const dim3 block(kPairs, kGroups);
  weigh_values<<<static_cast<unsigned>(heads), block, 0, static_cast<cudaStream_t>(stream)>>>(
      weights, reinterpret_cast<const __half2*>(values), reinterpret_cast<float2*>(result), length);
  return static_cast<int>(cudaGetLastError());
}
