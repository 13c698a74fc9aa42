// kernel: sph_cell_density/before/cuda
// flaw: the smoothing kernel calls powf for each of the 432 neighbours
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 128;
constexpr int kSlots = 16;
constexpr float kNormalization = 315.0f / (64.0f * 3.14159265f);

__device__ __forceinline__ float smoothing(float squared_distance) {
  return kNormalization * powf(fmaxf(1.0f - squared_distance, 0.0f), 3.0f);
}

__global__ void __launch_bounds__(kThreads)
    sum_density(const float* __restrict__ px, const float* __restrict__ py,
                const float* __restrict__ pz, const float* __restrict__ mass,
                float* __restrict__ density, int edge) {
  const int particle = blockIdx.x * kThreads + threadIdx.x;
  const int cell = particle / kSlots;
  if (cell >= edge * edge * edge) return;
  const int cx = cell % edge;
  const int cy = cell / edge % edge;
  const int cz = cell / (edge * edge);
  const float x = px[particle];
  const float y = py[particle];
  const float z = pz[particle];
  float sum = 0.0f;
  for (int dz = -1; dz <= 1; ++dz) {
    for (int dy = -1; dy <= 1; ++dy) {
      for (int dx = -1; dx <= 1; ++dx) {
        const int nx = cx + dx;
        const int ny = cy + dy;
        const int nz = cz + dz;
        if (nx < 0 || nx >= edge || ny < 0 || ny >= edge || nz < 0 || nz >= edge) continue;
        const int first = ((nz * edge + ny) * edge + nx) * kSlots;
        for (int other = first; other < first + kSlots; ++other) {
          const float rx = px[other] + static_cast<float>(dx) - x;
          const float ry = py[other] + static_cast<float>(dy) - y;
          const float rz = pz[other] + static_cast<float>(dz) - z;
          sum += mass[other] * smoothing(rx * rx + ry * ry + rz * rz);
        }
      }
    }
  }
  density[particle] = sum;
}

}  // namespace

extern "C" int particle_density(const float* px, const float* py, const float* pz,
                                const float* mass, float* density, std::int64_t edge,
                                void* stream) {
  const std::int64_t particles = edge * edge * edge * kSlots;
  const auto blocks = static_cast<unsigned>((particles + kThreads - 1) / kThreads);
  sum_density<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      px, py, pz, mass, density, static_cast<int>(edge));
  return static_cast<int>(cudaGetLastError());
}
