// kernel: coulomb_potential_from_global/before/cuda
// flaw: four global loads of one address by the whole warp for each pair
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 128;
constexpr float kSoftening = 0.01f;

__global__ void __launch_bounds__(kThreads)
    sum_potential(const float* __restrict__ x, const float* __restrict__ y,
                  const float* __restrict__ z, const float* __restrict__ charge,
                  float* __restrict__ potential, int n) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  const int own = i < n ? i : n - 1;
  const float own_x = x[own], own_y = y[own], own_z = z[own];
  float sum = 0.0f;
#pragma unroll 8
  for (int j = 0; j < n; ++j) {
    const float dx = x[j] - own_x, dy = y[j] - own_y, dz = z[j] - own_z;
    sum += charge[j] * rsqrtf(dx * dx + dy * dy + dz * dz + kSoftening);
  }
  if (i < n) potential[i] = sum;
}

}  // namespace

extern "C" int coulomb(const float* x, const float* y, const float* z, const float* charge,
                       float* potential, std::int64_t n, void* stream) {
  const unsigned blocks = static_cast<unsigned>((n + kThreads - 1) / kThreads);
  sum_potential<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      x, y, z, charge, potential, static_cast<int>(n));
  return static_cast<int>(cudaGetLastError());
}
