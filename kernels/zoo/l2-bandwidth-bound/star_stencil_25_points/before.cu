// kernel: star_stencil_25_points/before/cuda
// flaw: one plane a block, so that the 8 neighbours in z come from L2 for each output
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kRadius = 4;
constexpr int kWidth = 32;
constexpr int kHeight = 8;
constexpr int kThreads = kWidth * kHeight;
constexpr int kPlanes = 1;

__global__ void __launch_bounds__(kThreads)
    apply_star(const float* __restrict__ volume, const float* __restrict__ weights,
               float* __restrict__ out, int nz, int ny, int nx, int py, int px) {
  const int tx = threadIdx.x % kWidth, ty = threadIdx.x / kWidth;
  const int x = blockIdx.x * kWidth + tx, y = blockIdx.y * kHeight + ty;
  const int z = blockIdx.z * kPlanes;
  if (x >= nx || y >= ny) return;
  float w[kRadius + 1];
#pragma unroll
  for (int r = 0; r <= kRadius; ++r) w[r] = weights[r];
  const std::int64_t plane = static_cast<std::int64_t>(py) * px;
  const float* cell = volume + (z + kRadius) * plane +
                      static_cast<std::int64_t>(y + kRadius) * px + x + kRadius;
  float sum = w[0] * cell[0];
#pragma unroll
  for (int r = 1; r <= kRadius; ++r) {
    sum += w[r] * (cell[r] + cell[-r] + cell[r * px] + cell[-r * px] + cell[r * plane] +
                   cell[-r * plane]);
  }
  out[(static_cast<std::int64_t>(z) * ny + y) * nx + x] = sum;
}

}  // namespace

extern "C" int star_stencil(const float* volume, const float* weights, float* out, std::int64_t nz,
                            std::int64_t ny, std::int64_t nx, std::int64_t pz, std::int64_t py,
                            std::int64_t px, void* stream) {
  (void)pz;
  const dim3 grid((nx + kWidth - 1) / kWidth, (ny + kHeight - 1) / kHeight,
                  (nz + kPlanes - 1) / kPlanes);
  apply_star<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      volume, weights, out, static_cast<int>(nz), static_cast<int>(ny), static_cast<int>(nx),
      static_cast<int>(py), static_cast<int>(px));
  return static_cast<int>(cudaGetLastError());
}
