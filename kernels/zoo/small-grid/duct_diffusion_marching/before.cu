// kernel: duct_diffusion_marching/before/cuda
// flaw: each thread marches through all planes, so that a narrow duct has few blocks
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kBlockX = 32;
constexpr int kBlockY = 8;
constexpr float kRate = 0.1f;

__global__ void __launch_bounds__(kBlockX * kBlockY)
    diffuse(const float* __restrict__ u, float* __restrict__ next, int nz, int ny, int nx) {
  const int x = blockIdx.x * kBlockX + threadIdx.x;
  const int y = blockIdx.y * kBlockY + threadIdx.y;
  if (x >= nx || y >= ny) return;
  const int west = x > 0 ? -1 : 0;
  const int east = x < nx - 1 ? 1 : 0;
  const int south = y > 0 ? -nx : 0;
  const int north = y < ny - 1 ? nx : 0;
  const std::int64_t plane = static_cast<std::int64_t>(ny) * nx;
  std::int64_t i = static_cast<std::int64_t>(y) * nx + x;
  float centre = u[i];
  float below = centre;
  for (int z = 0; z < nz; ++z) {
    const float above = z < nz - 1 ? u[i + plane] : centre;
    const float around = u[i + west] + u[i + east] + u[i + south] + u[i + north];
    next[i] = centre + kRate * (around + below + above - 6.0f * centre);
    below = centre;
    centre = above;
    i += plane;
  }
}

}  // namespace

extern "C" int duct_diffusion(const float* u, float* next, std::int64_t nz, std::int64_t ny,
                              std::int64_t nx, void* stream) {
  const dim3 block(kBlockX, kBlockY);
  const dim3 grid(static_cast<unsigned>((nx + kBlockX - 1) / kBlockX),
                  static_cast<unsigned>((ny + kBlockY - 1) / kBlockY));
  diffuse<<<grid, block, 0, static_cast<cudaStream_t>(stream)>>>(
      u, next, static_cast<int>(nz), static_cast<int>(ny), static_cast<int>(nx));
  return static_cast<int>(cudaGetLastError());
}
