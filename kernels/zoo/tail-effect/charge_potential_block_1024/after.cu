// kernel: charge_potential_block_1024/after/cuda
// change: 256 threads a block instead of 1024, so that all 560 blocks are resident at once
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kPoints = 4;
constexpr int kTile = 1024;
constexpr float kSoftening = 0.01f;

__global__ void __launch_bounds__(kThreads)
    sum_potential(const float4* __restrict__ points, const float4* __restrict__ charges,
                  float* __restrict__ potential, int n, int m) {
  __shared__ float4 tile[kTile];
  const int first_point = blockIdx.x * kThreads * kPoints + threadIdx.x;
  float4 own[kPoints];
  float total[kPoints] = {};
#pragma unroll
  for (int p = 0; p < kPoints; ++p) own[p] = points[min(first_point + p * kThreads, n - 1)];
  for (int first = 0; first < m; first += kTile) {
    __syncthreads();
    for (int t = threadIdx.x; t < kTile; t += kThreads) {
      tile[t] = first + t < m ? charges[first + t] : make_float4(0.f, 0.f, 0.f, 0.f);
    }
    __syncthreads();
    float part[kPoints] = {};
#pragma unroll 8
    for (int t = 0; t < kTile; ++t) {
      const float4 charge = tile[t];
#pragma unroll
      for (int p = 0; p < kPoints; ++p) {
        const float dx = charge.x - own[p].x;
        const float dy = charge.y - own[p].y;
        const float dz = charge.z - own[p].z;
        const float squared = fmaf(dx, dx, fmaf(dy, dy, fmaf(dz, dz, kSoftening)));
        part[p] = fmaf(charge.w, rsqrtf(squared), part[p]);
      }
    }
#pragma unroll
    for (int p = 0; p < kPoints; ++p) total[p] += part[p];
  }
#pragma unroll
  for (int p = 0; p < kPoints; ++p) {
    const int i = first_point + p * kThreads;
    if (i < n) potential[i] = own[p].w * total[p];
  }
}

}  // namespace

extern "C" int potential_at(const float* points, const float* charges, float* potential,
                            std::int64_t n, std::int64_t m, void* stream) {
  const int blocks = static_cast<int>((n + kThreads * kPoints - 1) / (kThreads * kPoints));
  sum_potential<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      reinterpret_cast<const float4*>(points), reinterpret_cast<const float4*>(charges), potential,
      static_cast<int>(n), static_cast<int>(m));
  return static_cast<int>(cudaGetLastError());
}
