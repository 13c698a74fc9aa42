// kernel: codebook_best_score/after/cuda
// change: four running sums, added at the end
#include <cuda_runtime.h>

#include <cfloat>
#include <cstdint>

namespace {

constexpr int kThreads = 128;
constexpr int kQuads = 16;
constexpr int kCodes = 512;

__global__ void __launch_bounds__(kThreads)
    find_best_scores(const float4* __restrict__ vectors, const float4* __restrict__ codes,
                     float* __restrict__ scores, int n) {
  extern __shared__ float4 staged[];
  for (int i = threadIdx.x; i < kCodes * kQuads; i += kThreads) staged[i] = codes[i];
  __syncthreads();
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= n) return;
  float4 vector[kQuads];
#pragma unroll
  for (int q = 0; q < kQuads; ++q) vector[q] = vectors[static_cast<std::int64_t>(i) * kQuads + q];
  float best = -FLT_MAX;
  for (int code = 0; code < kCodes; ++code) {
    float4 dot = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
      const float4 other = staged[code * kQuads + q];
      dot.x += vector[q].x * other.x;
      dot.y += vector[q].y * other.y;
      dot.z += vector[q].z * other.z;
      dot.w += vector[q].w * other.w;
    }
    best = fmaxf(best, (dot.x + dot.y) + (dot.z + dot.w));
  }
  scores[i] = best;
}

}  // namespace

extern "C" int score(const float4* vectors, const float4* codes, float* scores, std::int64_t n,
                     void* stream) {
  constexpr int kBytes = kCodes * kQuads * sizeof(float4);
  cudaFuncSetAttribute(find_best_scores, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  const int blocks = static_cast<int>((n + kThreads - 1) / kThreads);
  find_best_scores<<<blocks, kThreads, kBytes, static_cast<cudaStream_t>(stream)>>>(
      vectors, codes, scores, static_cast<int>(n));
  return static_cast<int>(cudaGetLastError());
}
