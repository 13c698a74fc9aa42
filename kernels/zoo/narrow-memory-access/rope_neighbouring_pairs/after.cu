// kernel: rope_neighbouring_pairs/after/cuda
// change: a thread turns four pairs, 16 bytes for each access
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kPairs = 64;

union Values {
  uint4 packed;
  __nv_bfloat16 value[8];
  __device__ Values() {}
};

// A block turns the neighbouring pairs of all heads of one token.
__global__ void __launch_bounds__(kThreads)
    rotate_pairs(const __nv_bfloat16* __restrict__ qk, const int* __restrict__ positions,
                 const float* __restrict__ cosines, const float* __restrict__ sines,
                 __nv_bfloat16* __restrict__ out, int heads) {
  const std::int64_t start = static_cast<std::int64_t>(blockIdx.x) * heads * 2 * kPairs;
  const int row = positions[blockIdx.x] * kPairs;
  for (int i = 4 * threadIdx.x; i < heads * kPairs; i += 4 * kThreads) {
    const float4 cosine = *reinterpret_cast<const float4*>(cosines + row + i % kPairs);
    const float4 sine = *reinterpret_cast<const float4*>(sines + row + i % kPairs);
    const float c[4] = {cosine.x, cosine.y, cosine.z, cosine.w};
    const float s[4] = {sine.x, sine.y, sine.z, sine.w};
    Values values;
    values.packed = *reinterpret_cast<const uint4*>(qk + start + 2 * i);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const float real = __bfloat162float(values.value[2 * k]);
      const float imaginary = __bfloat162float(values.value[2 * k + 1]);
      values.value[2 * k] = __float2bfloat16(real * c[k] - imaginary * s[k]);
      values.value[2 * k + 1] = __float2bfloat16(imaginary * c[k] + real * s[k]);
    }
    *reinterpret_cast<uint4*>(out + start + 2 * i) = values.packed;
  }
}

}  // namespace

extern "C" int apply_rope(const __nv_bfloat16* qk, const int* positions, const float* cosines,
                          const float* sines, __nv_bfloat16* out, std::int64_t tokens,
                          std::int64_t heads, void* stream) {
  rotate_pairs<<<static_cast<unsigned>(tokens), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      qk, positions, cosines, sines, out, static_cast<int>(heads));
  return static_cast<int>(cudaGetLastError());
}
