// kernel: skinny_projection_resident_weight/after/cuda
// change: two tiles in shared memory, the next one copied by cp.async while this one is used
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {
constexpr int kThreads = 256;
constexpr int kBlocks = 132;
constexpr int kTokens = 96;
constexpr int kOwn = kTokens / (kThreads / 32);
constexpr int kIn = 256;
constexpr int kOut = 32;
constexpr int kBuffers = 2;
constexpr int kTileFloats = kTokens * kIn;
constexpr int kBytes = (kIn * kOut + kBuffers * kTileFloats) * static_cast<int>(sizeof(float));

__device__ void copy_tile(float* tile, const float* x, int first, int tokens) {
  for (int e = threadIdx.x * 4; e < kTileFloats; e += kThreads * 4) {
    const int token = min(first + e / kIn, tokens - 1);
    const float* source = x + static_cast<std::int64_t>(token) * kIn + e % kIn;
    __pipeline_memcpy_async(tile + e, source, 16);
  }
  __pipeline_commit();
}

__global__ void __launch_bounds__(kThreads)
    project_tokens(const float* __restrict__ x, const float* __restrict__ weight,
                   float* __restrict__ y, int tokens) {
  extern __shared__ __align__(16) float shared[];
  float* own_weight = shared;
  float* tiles = shared + kIn * kOut;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int e = threadIdx.x; e < kIn * kOut; e += kThreads) own_weight[e] = weight[e];
  copy_tile(tiles, x, blockIdx.x * kTokens, tokens);
  int round = 0;
  for (int first = blockIdx.x * kTokens; first < tokens; first += kBlocks * kTokens) {
    __pipeline_wait_prior(0);
    __syncthreads();
    const float* tile = tiles + round * kTileFloats + warp * kOwn * kIn;
    round = 1 - round;
    if (first + kBlocks * kTokens < tokens) {
      copy_tile(tiles + round * kTileFloats, x, first + kBlocks * kTokens, tokens);
    }
    float sum[kOwn] = {};
#pragma unroll 2
    for (int i = 0; i < kIn; i += 4) {
      float w[4];
#pragma unroll
      for (int d = 0; d < 4; ++d) w[d] = own_weight[(i + d) * kOut + lane];
#pragma unroll
      for (int t = 0; t < kOwn; ++t) {
        const float4 value = *reinterpret_cast<const float4*>(tile + t * kIn + i);
        sum[t] = fmaf(value.x, w[0], fmaf(value.y, w[1], sum[t]));
        sum[t] = fmaf(value.z, w[2], fmaf(value.w, w[3], sum[t]));
      }
    }
#pragma unroll
    for (int t = 0; t < kOwn; ++t) {
      const int token = first + warp * kOwn + t;
      if (token < tokens) y[token * kOut + lane] = sum[t];
    }
  }
}

}  // namespace

extern "C" int project(const float* x, const float* weight, float* y, std::int64_t tokens,
                       void* stream) {
  cudaFuncSetAttribute(project_tokens, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  project_tokens<<<kBlocks, kThreads, kBytes, static_cast<cudaStream_t>(stream)>>>(
      x, weight, y, static_cast<int>(tokens));
  return static_cast<int>(cudaGetLastError());
}
