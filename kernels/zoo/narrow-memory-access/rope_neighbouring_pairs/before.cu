// kernel: rope_neighbouring_pairs/before/cuda
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kPairs = 64;

// A block turns the neighbouring pairs of all heads of one token.
__global__ void __launch_bounds__(kThreads)
    rotate_pairs(const __nv_bfloat16* __restrict__ qk, const int* __restrict__ positions,
                 const float* __restrict__ cosines, const float* __restrict__ sines,
                 __nv_bfloat16* __restrict__ out, int heads) {
  const std::int64_t start = static_cast<std::int64_t>(blockIdx.x) * heads * 2 * kPairs;
  const int row = positions[blockIdx.x] * kPairs;
  for (int i = threadIdx.x; i < heads * kPairs; i += kThreads) {
    const float cosine = cosines[row + i % kPairs];
    const float sine = sines[row + i % kPairs];
    const std::int64_t at = start + 2 * i;
    const float real = __bfloat162float(qk[at]);
    const float imaginary = __bfloat162float(qk[at + 1]);
    out[at] = __float2bfloat16(real * cosine - imaginary * sine);
    out[at + 1] = __float2bfloat16(imaginary * cosine + real * sine);
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
