// kernel: coulomb_potential_from_global/after/cuda
// change: a block of 128 threads stages 128 charges at a time in shared memory
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 128;
constexpr float kSoftening = 0.01f;

__global__ void __launch_bounds__(kThreads)
    sum_potential(const float* __restrict__ x, const float* __restrict__ y,
                  const float* __restrict__ z, const float* __restrict__ charge,
                  float* __restrict__ potential, int n) {
  __shared__ __align__(16) float tile_x[kThreads], tile_y[kThreads];
  __shared__ __align__(16) float tile_z[kThreads], tile_charge[kThreads];
  const int i = blockIdx.x * kThreads + threadIdx.x;
  const int own = i < n ? i : n - 1;
  const float own_x = x[own], own_y = y[own], own_z = z[own];
  float sum = 0.0f;
  for (int start = 0; start < n; start += kThreads) {
    const int from = start + threadIdx.x < n ? start + threadIdx.x : n - 1;
    tile_x[threadIdx.x] = x[from];
    tile_y[threadIdx.x] = y[from];
    tile_z[threadIdx.x] = z[from];
    tile_charge[threadIdx.x] = start + threadIdx.x < n ? charge[from] : 0.0f;
    __syncthreads();
#pragma unroll 8
    for (int j = 0; j < kThreads; ++j) {
      const float dx = tile_x[j] - own_x, dy = tile_y[j] - own_y, dz = tile_z[j] - own_z;
      sum += tile_charge[j] * rsqrtf(dx * dx + dy * dy + dz * dz + kSoftening);
    }
    __syncthreads();
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
