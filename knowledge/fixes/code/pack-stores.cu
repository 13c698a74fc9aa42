// fix: pack-stores
// arch: sm_80 sm_90a sm_100a
// source: nsight-compute-rules
#include <cuda_runtime.h>

namespace before {

// One byte per store: a warp writes 32 bytes with one instruction.
__global__ void threshold(const float* __restrict__ x, unsigned char* __restrict__ mask,
                          float limit, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) mask[i] = x[i] > limit;
}

}  // namespace before

namespace after {

// Sixteen bytes per store: a warp writes 512 bytes with one instruction.
// n is a multiple of 16; x and mask are aligned to 16 bytes.
__global__ void threshold(const float* __restrict__ x, unsigned char* __restrict__ mask,
                          float limit, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n / 16) return;
  const float4* from = reinterpret_cast<const float4*>(x) + 4 * static_cast<size_t>(i);
  unsigned word[4];
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    const float4 v = from[w];
    word[w] = (v.x > limit ? 1u : 0u) | (v.y > limit ? 1u << 8 : 0u) |
              (v.z > limit ? 1u << 16 : 0u) | (v.w > limit ? 1u << 24 : 0u);
  }
  reinterpret_cast<uint4*>(mask)[i] = make_uint4(word[0], word[1], word[2], word[3]);
}

}  // namespace after
