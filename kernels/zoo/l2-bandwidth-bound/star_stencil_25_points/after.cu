// kernel: star_stencil_25_points/after/cuda
// change: a block marches through 96 planes, the plane in shared memory, the column in registers
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kRadius = 4;
constexpr int kWidth = 32;
constexpr int kHeight = 8;
constexpr int kThreads = kWidth * kHeight;
constexpr int kPlanes = 96;

__global__ void __launch_bounds__(kThreads)
    apply_star(const float* __restrict__ volume, const float* __restrict__ weights,
               float* __restrict__ out, int nz, int ny, int nx, int py, int px) {
  __shared__ float tile[kHeight + 2 * kRadius][kWidth + 2 * kRadius];
  const int tx = threadIdx.x % kWidth, ty = threadIdx.x / kWidth;
  const int x = blockIdx.x * kWidth + tx, y = blockIdx.y * kHeight + ty;
  const bool is_inside = x < nx && y < ny;
  float w[kRadius + 1];
#pragma unroll
  for (int r = 0; r <= kRadius; ++r) w[r] = weights[r];
  const std::int64_t plane = static_cast<std::int64_t>(py) * px;
  const int last_row = py - 1 - static_cast<int>(blockIdx.y) * kHeight;
  const int last_column = px - 1 - static_cast<int>(blockIdx.x) * kWidth;
  const int first = blockIdx.z * kPlanes;
  const int end = first + kPlanes < nz ? first + kPlanes : nz;
  const float* corner = volume + first * plane +
                        static_cast<std::int64_t>(blockIdx.y * kHeight) * px + blockIdx.x * kWidth;
  const int own = min(ty + kRadius, last_row) * px + min(tx + kRadius, last_column);
  float column[2 * kRadius + 1];
#pragma unroll
  for (int r = 0; r < 2 * kRadius; ++r) column[r] = corner[r * plane + own];
  for (int z = first; z < end; ++z, corner += plane) {
    column[2 * kRadius] = corner[2 * kRadius * plane + own];
    tile[ty + kRadius][tx + kRadius] = column[kRadius];
    const int halo_row = ty < kRadius ? ty : ty + kHeight;
    if (halo_row <= last_row && tx + kRadius <= last_column) {
      tile[halo_row][tx + kRadius] = corner[kRadius * plane + halo_row * px + tx + kRadius];
    }
    if (threadIdx.x < 2 * kRadius * kHeight) {
      const int r = kRadius + threadIdx.x / (2 * kRadius), c = threadIdx.x % (2 * kRadius);
      const int halo_column = c < kRadius ? c : c + kWidth;
      if (r <= last_row && halo_column <= last_column) {
        tile[r][halo_column] = corner[kRadius * plane + r * px + halo_column];
      }
    }
    __syncthreads();
    if (is_inside) {
      float sum = w[0] * column[kRadius];
#pragma unroll
      for (int r = 1; r <= kRadius; ++r) {
        sum += w[r] * (tile[ty + kRadius][tx + kRadius + r] + tile[ty + kRadius][tx + kRadius - r] +
                       tile[ty + kRadius + r][tx + kRadius] + tile[ty + kRadius - r][tx + kRadius] +
                       column[kRadius + r] + column[kRadius - r]);
      }
      out[(static_cast<std::int64_t>(z) * ny + y) * nx + x] = sum;
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < 2 * kRadius; ++r) column[r] = column[r + 1];
  }
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
