// kernel: wkv6_recurrence/hints/cuda
// change: streaming loads of what is read once
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kSize = 64;

// A block owns a head of a sequence, a thread a column of its state.
__global__ void __launch_bounds__(kSize)
    advance_head(const __nv_bfloat16* __restrict__ receptances,
                 const __nv_bfloat16* __restrict__ keys, const __nv_bfloat16* __restrict__ values,
                 const float* __restrict__ decays, const float* __restrict__ bonus,
                 __nv_bfloat16* __restrict__ out, int length, int heads) {
  __shared__ float receptance[kSize];
  __shared__ float key[kSize];
  __shared__ float decay[kSize];
  __shared__ float extra[kSize];
  const int column = threadIdx.x;
  const int head = blockIdx.x % heads;
  const int sequence = blockIdx.x / heads;
  const std::int64_t stride = static_cast<std::int64_t>(heads) * kSize;
  std::int64_t at = static_cast<std::int64_t>(sequence) * length * stride + head * kSize + column;
  extra[column] = bonus[head * kSize + column];
  float state[kSize];
#pragma unroll
  for (int row = 0; row < kSize; ++row) state[row] = 0.0f;

  for (int step = 0; step < length; ++step) {
    __syncthreads();
    receptance[column] = __bfloat162float(__ldcs(receptances + at));
    key[column] = __bfloat162float(__ldcs(keys + at));
    decay[column] = __ldcs(decays + at);
    __syncthreads();
    const float value = __bfloat162float(__ldcs(values + at));
    float sum = 0.0f;
#pragma unroll
    for (int row = 0; row < kSize; ++row) {
      const float product = key[row] * value;
      sum += receptance[row] * (extra[row] * product + state[row]);
      state[row] = state[row] * decay[row] + product;
    }
    out[at] = __float2bfloat16(sum);
    at += stride;
  }
}

}  // namespace

extern "C" int run_recurrence(const __nv_bfloat16* receptances, const __nv_bfloat16* keys,
                              const __nv_bfloat16* values, const float* decays,
                              const float* bonus, __nv_bfloat16* out, std::int64_t batch,
                              std::int64_t length, std::int64_t heads, void* stream) {
  const auto blocks = static_cast<unsigned>(batch * heads);
  advance_head<<<blocks, kSize, 0, static_cast<cudaStream_t>(stream)>>>(
      receptances, keys, values, decays, bonus, out, static_cast<int>(length),
      static_cast<int>(heads));
  return static_cast<int>(cudaGetLastError());
}
