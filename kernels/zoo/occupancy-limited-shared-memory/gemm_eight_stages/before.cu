// kernel: gemm_eight_stages/before/cuda
// flaw: eight stages take 128 KB, so that one block of four warps fits an SM
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kTile = 64;
constexpr int kDepth = 32;
constexpr int kThreads = 128;
constexpr int kStages = 8;
constexpr int kStageFloats = 2 * kDepth * kTile;
constexpr int kBytes = kStages * kStageFloats * static_cast<int>(sizeof(float));

__device__ void copy_stage(float* stage, const float* a, const float* b, int first, int m, int n) {
  for (int e = threadIdx.x; e < kDepth * kTile / 4; e += kThreads) {
    const int d = e / (kTile / 4), c = e % (kTile / 4) * 4;
    const std::int64_t row = first + d;
    __pipeline_memcpy_async(stage + d * kTile + c, a + row * m + c, 16);
    __pipeline_memcpy_async(stage + (kDepth + d) * kTile + c, b + row * n + c, 16);
  }
}

__global__ void __launch_bounds__(kThreads)
    multiply(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int k,
             int m, int n) {
  extern __shared__ __align__(16) float stages[];
  const int row0 = blockIdx.y * kTile, col0 = blockIdx.x * kTile;
  const int tx = threadIdx.x % 16 * 4, ty = threadIdx.x / 16 * 4;
  const int steps = k / kDepth;
  for (int s = 0; s < kStages - 1; ++s) {
    if (s < steps) copy_stage(stages + s * kStageFloats, a + row0, b + col0, s * kDepth, m, n);
    __pipeline_commit();
  }
  float sum[8][4] = {};
  for (int s = 0; s < steps; ++s) {
    __pipeline_wait_prior(kStages - 2);
    __syncthreads();
    const int ahead = s + kStages - 1;
    if (ahead < steps) {
      copy_stage(stages + ahead % kStages * kStageFloats, a + row0, b + col0, ahead * kDepth, m, n);
    }
    __pipeline_commit();
    const float* left = stages + s % kStages * kStageFloats;
    const float* right = left + kDepth * kTile;
#pragma unroll 8
    for (int d = 0; d < kDepth; ++d) {
      float l[8], r[4];
      *reinterpret_cast<float4*>(l) = *reinterpret_cast<const float4*>(left + d * kTile + ty);
      *reinterpret_cast<float4*>(l + 4) =
          *reinterpret_cast<const float4*>(left + d * kTile + 32 + ty);
      *reinterpret_cast<float4*>(r) = *reinterpret_cast<const float4*>(right + d * kTile + tx);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) sum[i][j] = fmaf(l[i], r[j], sum[i][j]);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const std::int64_t row = row0 + ty + i % 4 + i / 4 * 32;
    *reinterpret_cast<float4*>(c + row * n + col0 + tx) =
        make_float4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]);
  }
}

}  // namespace

extern "C" int gemm_tn(const float* a, const float* b, float* c, std::int64_t k, std::int64_t m,
                       std::int64_t n, void* stream) {
  cudaFuncSetAttribute(multiply, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  const dim3 grid(static_cast<unsigned>(n / kTile), static_cast<unsigned>(m / kTile));
  multiply<<<grid, kThreads, kBytes, static_cast<cudaStream_t>(stream)>>>(
      a, b, c, static_cast<int>(k), static_cast<int>(m), static_cast<int>(n));
  return static_cast<int>(cudaGetLastError());
}
