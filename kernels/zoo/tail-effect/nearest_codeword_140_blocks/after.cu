// kernel: nearest_codeword_140_blocks/after/cuda
// change: 544 points a block instead of 512, so that 132 blocks run in one wave
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kDims = 32;
constexpr int kCodewords = 1024;
constexpr int kThreads = 544;
constexpr int kBytes = kCodewords * kDims * static_cast<int>(sizeof(float));

__global__ void __launch_bounds__(kThreads)
    find_nearest(const float* __restrict__ points, const float4* __restrict__ codebook,
                 float* __restrict__ distance, int n) {
  extern __shared__ float4 words[];
  for (int e = threadIdx.x; e < kCodewords * kDims / 4; e += kThreads) words[e] = codebook[e];
  const int i = blockIdx.x * kThreads + threadIdx.x;
  float own[kDims];
#pragma unroll
  for (int d = 0; d < kDims; ++d) own[d] = points[d * static_cast<std::int64_t>(n) + min(i, n - 1)];
  __syncthreads();
  float best = 3.4e38f;
  for (int w = 0; w < kCodewords; ++w) {
    float squared = 0.f, other = 0.f;
#pragma unroll
    for (int d = 0; d < kDims; d += 4) {
      const float4 word = words[w * kDims / 4 + d / 4];
      const float dx = own[d] - word.x, dy = own[d + 1] - word.y;
      const float dz = own[d + 2] - word.z, dw = own[d + 3] - word.w;
      squared = fmaf(dx, dx, fmaf(dy, dy, squared));
      other = fmaf(dz, dz, fmaf(dw, dw, other));
    }
    best = fminf(best, squared + other);
  }
  if (i < n) distance[i] = best;
}

}  // namespace

extern "C" int nearest_distance(const float* points, const float* codebook, float* distance,
                                std::int64_t n, void* stream) {
  cudaFuncSetAttribute(find_nearest, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  const int blocks = static_cast<int>((n + kThreads - 1) / kThreads);
  find_nearest<<<blocks, kThreads, kBytes, static_cast<cudaStream_t>(stream)>>>(
      points, reinterpret_cast<const float4*>(codebook), distance, static_cast<int>(n));
  return static_cast<int>(cudaGetLastError());
}
