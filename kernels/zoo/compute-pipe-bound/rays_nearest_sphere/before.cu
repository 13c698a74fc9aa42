// kernel: rays_nearest_sphere/before/cuda
// limit: arithmetic for every pair of a ray and a sphere; few rays meet a sphere at all
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 128;
constexpr int kTile = 256;
constexpr float kFar = 64.0f;

// A thread a ray from the origin; spheres are (x, y, z, radius).
__global__ void __launch_bounds__(kThreads)
    trace(const float* __restrict__ directions, const float* __restrict__ centers,
          const float* __restrict__ radii, float* __restrict__ depths, std::int64_t rays,
          std::int64_t spheres) {
  __shared__ float4 tile[kTile];
  const int count = static_cast<int>(spheres);
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const std::int64_t ray = i < rays ? i : rays - 1;
  float x = directions[3 * ray];
  float y = directions[3 * ray + 1];
  float z = directions[3 * ray + 2];
  const float norm = rsqrtf(x * x + y * y + z * z);
  x *= norm;
  y *= norm;
  z *= norm;
  float nearest = kFar;
  for (int start = 0; start < count; start += kTile) {
    const int size = min(kTile, count - start);
    for (int k = threadIdx.x; k < size; k += kThreads) {
      const float* center = centers + 3 * (start + k);
      tile[k] = make_float4(center[0], center[1], center[2], radii[start + k]);
    }
    __syncthreads();
    for (int k = 0; k < size; ++k) {
      const float4 sphere = tile[k];
      const float along = sphere.x * x + sphere.y * y + sphere.z * z;
      const float dx = sphere.x - along * x;
      const float dy = sphere.y - along * y;
      const float dz = sphere.z - along * z;
      const float inside = sphere.w * sphere.w - (dx * dx + dy * dy + dz * dz);
      if (inside > 0.0f) {
        const float depth = along - sqrtf(inside);
        if (depth > 0.0f && depth < nearest) nearest = depth;
      }
    }
    __syncthreads();
  }
  if (i < rays) depths[i] = nearest;
}

}  // namespace

extern "C" int trace_rays(const float* directions, const float* centers, const float* radii,
                          float* depths, std::int64_t rays, std::int64_t spheres, void* stream) {
  const unsigned int blocks = static_cast<unsigned int>((rays + kThreads - 1) / kThreads);
  trace<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(directions, centers, radii,
                                                                    depths, rays, spheres);
  return static_cast<int>(cudaGetLastError());
}
