// kernel: charge_field_many_points/after/cuda
// change: 8 points instead of 40 for each thread
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kPoints = 8;
constexpr int kStaged = 64;
constexpr float kSoftening = 0.5f;

__global__ void __launch_bounds__(kThreads, 2)
    add_fields(const float* __restrict__ points, const float4* __restrict__ charges,
               float* __restrict__ field, int n, int m) {
  __shared__ float4 staged[kStaged];
  const int first = blockIdx.x * kThreads * kPoints + threadIdx.x;
  float x[kPoints], y[kPoints], z[kPoints];
  float ex[kPoints], ey[kPoints], ez[kPoints];
#pragma unroll
  for (int p = 0; p < kPoints; ++p) {
    const int i = min(first + p * kThreads, n - 1);
    x[p] = points[i];
    y[p] = points[n + i];
    z[p] = points[2 * n + i];
    ex[p] = ey[p] = ez[p] = 0.0f;
  }
  for (int start = 0; start < m; start += kStaged) {
    const int count = min(kStaged, m - start);
    if (static_cast<int>(threadIdx.x) < count) staged[threadIdx.x] = charges[start + threadIdx.x];
    __syncthreads();
#pragma unroll 1
    for (int j = 0; j < count; ++j) {
      const float4 charge = staged[j];
#pragma unroll
      for (int p = 0; p < kPoints; ++p) {
        const float dx = x[p] - charge.x;
        const float dy = y[p] - charge.y;
        const float dz = z[p] - charge.z;
        const float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + kSoftening);
        const float strength = charge.w * inverse * inverse * inverse;
        ex[p] += strength * dx;
        ey[p] += strength * dy;
        ez[p] += strength * dz;
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int p = 0; p < kPoints; ++p) {
    const int i = first + p * kThreads;
    if (i < n) {
      field[i] = ex[p];
      field[n + i] = ey[p];
      field[2 * n + i] = ez[p];
    }
  }
}

}  // namespace

extern "C" int charge_field(const float* points, const float* charges, float* field,
                            std::int64_t n, std::int64_t m, void* stream) {
  constexpr int kPerBlock = kThreads * kPoints;
  const int blocks = static_cast<int>((n + kPerBlock - 1) / kPerBlock);
  add_fields<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      points, reinterpret_cast<const float4*>(charges), field, static_cast<int>(n),
      static_cast<int>(m));
  return static_cast<int>(cudaGetLastError());
}
