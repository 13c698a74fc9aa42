// kernel: nbody_forces_wide_blocks/after/cuda
// change: 64 bodies a block instead of 512, 32 -> 256 blocks
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 64;
constexpr int kTile = 256;
constexpr float kSoftening = 0.01f;

__global__ void __launch_bounds__(kThreads)
    accelerate(const float4* __restrict__ bodies, float* __restrict__ accelerations, int n) {
  __shared__ float4 tile[kTile];
  const int i = blockIdx.x * kThreads + threadIdx.x;
  const float4 own = i < n ? bodies[i] : make_float4(0.f, 0.f, 0.f, 0.f);
  float ax = 0.f, ay = 0.f, az = 0.f;
  for (int first = 0; first < n; first += kTile) {
    __syncthreads();
    for (int t = threadIdx.x; t < kTile; t += kThreads) {
      tile[t] = first + t < n ? bodies[first + t] : make_float4(0.f, 0.f, 0.f, 0.f);
    }
    __syncthreads();
    float tx = 0.f, ty = 0.f, tz = 0.f;
#pragma unroll 8
    for (int t = 0; t < kTile; ++t) {
      const float4 other = tile[t];
      const float dx = other.x - own.x, dy = other.y - own.y, dz = other.z - own.z;
      const float inverse = rsqrtf(fmaf(dx, dx, fmaf(dy, dy, fmaf(dz, dz, kSoftening))));
      const float weight = other.w * inverse * inverse * inverse;
      tx = fmaf(dx, weight, tx);
      ty = fmaf(dy, weight, ty);
      tz = fmaf(dz, weight, tz);
    }
    ax += tx;
    ay += ty;
    az += tz;
  }
  if (i < n) {
    accelerations[3 * i] = ax;
    accelerations[3 * i + 1] = ay;
    accelerations[3 * i + 2] = az;
  }
}

}  // namespace

extern "C" int nbody(const float* bodies, float* accelerations, std::int64_t n, void* stream) {
  const int blocks = static_cast<int>((n + kThreads - 1) / kThreads);
  accelerate<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      reinterpret_cast<const float4*>(bodies), accelerations, static_cast<int>(n));
  return static_cast<int>(cudaGetLastError());
}
