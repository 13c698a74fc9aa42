// kernel: neighbour_list_forces/fast-reciprocal/cuda
// change: the reciprocal is approximate
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 128;
constexpr int kReach = 512;  // listed neighbours lie within this many places

struct Sum {
  float x, y, z;
};

__device__ __forceinline__ void add_pair_force(Sum& force, float4 own, float4 other) {
  const float dx = own.x - other.x, dy = own.y - other.y, dz = own.z - other.z;
  const float squared = dx * dx + dy * dy + dz * dz + 1.0f;
  const float inverse = __fdividef(1.0f, squared);
  const float sixth = inverse * inverse * inverse;
  const float inside = fmaxf(1.0f - squared * (1.0f / 16.0f), 0.0f);
  const float scale = own.w * other.w * (2.0f * sixth - 1.0f) * sixth * inverse * inside * inside;
  force.x += scale * dx;
  force.y += scale * dy;
  force.z += scale * dz;
}

__global__ void __launch_bounds__(kThreads)
    sum_pair_forces(const float4* __restrict__ atoms, const int* __restrict__ list,
                    float* __restrict__ forces, int n, int neighbours) {
  const int atom = blockIdx.x * kThreads + threadIdx.x;
  if (atom >= n) return;
  const float4 own = atoms[atom];
  const int* row = list + static_cast<std::int64_t>(atom) * neighbours;
  Sum force = {0.0f, 0.0f, 0.0f};
  for (int k = 0; k < neighbours; ++k) {
    const int other = min(max(atom + row[k] - kReach, 0), n - 1);
    add_pair_force(force, own, atoms[other]);
  }
  forces[3 * atom] = force.x;
  forces[3 * atom + 1] = force.y;
  forces[3 * atom + 2] = force.z;
}

}  // namespace

extern "C" int pair_forces(const float4* atoms, const int* list, float* forces, std::int64_t n,
                           std::int64_t neighbours, void* stream) {
  const int blocks = static_cast<int>((n + kThreads - 1) / kThreads);
  sum_pair_forces<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      atoms, list, forces, static_cast<int>(n), static_cast<int>(neighbours));
  return static_cast<int>(cudaGetLastError());
}
