// kernel: lbm_d2q9_pull/before/cuda
// flaw: none that matters: reading and writing 36 bytes a cell takes longer than the divisions
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 128;

__device__ __forceinline__ float relax(float f, float equilibrium, float tau) {
  return f - (f - equilibrium) / tau;
}

__global__ void __launch_bounds__(kThreads)
    stream_collide(const float* __restrict__ f, float* __restrict__ out, float tau, int h, int w) {
  const int x = blockIdx.x * kThreads + threadIdx.x;
  const int y = blockIdx.y;
  if (x >= w) return;
  const int west = x == 0 ? w - 1 : x - 1;
  const int east = x == w - 1 ? 0 : x + 1;
  const int south = y == 0 ? h - 1 : y - 1;
  const int north = y == h - 1 ? 0 : y + 1;
  const std::int64_t plane = static_cast<std::int64_t>(h) * w;
  const std::int64_t row = static_cast<std::int64_t>(y) * w;
  const std::int64_t row_south = static_cast<std::int64_t>(south) * w;
  const std::int64_t row_north = static_cast<std::int64_t>(north) * w;

  const float f0 = f[row + x];
  const float f1 = f[plane + row + west];
  const float f2 = f[2 * plane + row_south + x];
  const float f3 = f[3 * plane + row + east];
  const float f4 = f[4 * plane + row_north + x];
  const float f5 = f[5 * plane + row_south + west];
  const float f6 = f[6 * plane + row_south + east];
  const float f7 = f[7 * plane + row_north + east];
  const float f8 = f[8 * plane + row_north + west];

  const float rho = f0 + f1 + f2 + f3 + f4 + f5 + f6 + f7 + f8;
  const float u = (f1 + f5 + f8 - f3 - f6 - f7) / rho;
  const float v = (f2 + f5 + f6 - f4 - f7 - f8) / rho;
  const float base = 1.0f - 1.5f * (u * u + v * v);
  const float axis = rho * (1.0f / 9.0f);
  const float diagonal = rho * (1.0f / 36.0f);
  const float sum = u + v;
  const float difference = u - v;

  float* cell = out + row + x;
  cell[0] = relax(f0, rho * (4.0f / 9.0f) * base, tau);
  cell[plane] = relax(f1, axis * (base + u * (3.0f + 4.5f * u)), tau);
  cell[2 * plane] = relax(f2, axis * (base + v * (3.0f + 4.5f * v)), tau);
  cell[3 * plane] = relax(f3, axis * (base - u * (3.0f - 4.5f * u)), tau);
  cell[4 * plane] = relax(f4, axis * (base - v * (3.0f - 4.5f * v)), tau);
  cell[5 * plane] = relax(f5, diagonal * (base + sum * (3.0f + 4.5f * sum)), tau);
  cell[6 * plane] = relax(f6, diagonal * (base - difference * (3.0f - 4.5f * difference)), tau);
  cell[7 * plane] = relax(f7, diagonal * (base - sum * (3.0f - 4.5f * sum)), tau);
  cell[8 * plane] = relax(f8, diagonal * (base + difference * (3.0f + 4.5f * difference)), tau);
}

}  // namespace

extern "C" int lattice_step(const float* f, double tau, float* out, std::int64_t h, std::int64_t w,
                            void* stream) {
  const dim3 grid(static_cast<unsigned>((w + kThreads - 1) / kThreads), static_cast<unsigned>(h));
  stream_collide<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      f, out, static_cast<float>(tau), static_cast<int>(h), static_cast<int>(w));
  return static_cast<int>(cudaGetLastError());
}
