// kernel: soft_triangles_few_rays/after/cuda
// change: eight warps share the triangles of 32 rays
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kRays = 32;  // of a block
constexpr int kParts = 8;  // of the triangles, a warp each
constexpr int kThreads = kRays * kParts;

struct Vector {
  float x, y, z;
};

__device__ __forceinline__ Vector load(const float* from) { return {from[0], from[1], from[2]}; }

__device__ __forceinline__ Vector subtract(Vector a, Vector b) {
  return {a.x - b.x, a.y - b.y, a.z - b.z};
}

__device__ __forceinline__ Vector cross(Vector a, Vector b) {
  return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}

__device__ __forceinline__ float dot(Vector a, Vector b) {
  return a.x * b.x + a.y * b.y + a.z * b.z;
}

// Share of a ray that passes a triangle with soft edges.
__device__ __forceinline__ float pass(Vector origin, Vector direction, const float* triangle,
                                      float opacity) {
  const Vector corner = load(triangle);
  const Vector edge1 = subtract(load(triangle + 3), corner);
  const Vector edge2 = subtract(load(triangle + 6), corner);
  const Vector side = cross(direction, edge2);
  const float determinant = dot(edge1, side);
  const float inverse = determinant / (determinant * determinant + 1e-6f);
  const Vector offset = subtract(origin, corner);
  const Vector turned = cross(offset, edge1);
  const float u = dot(offset, side) * inverse;
  const float v = dot(direction, turned) * inverse;
  const float distance = dot(edge2, turned) * inverse;
  const float edge = fminf(fminf(u, v), 1.0f - u - v);
  const float inside = __saturatef(0.5f + 8.0f * edge) * __saturatef(4.0f * distance);
  return 1.0f - opacity * inside;
}

__global__ void __launch_bounds__(kThreads)
    trace_rays(const float* __restrict__ origins, const float* __restrict__ directions,
               const float* __restrict__ triangles, const float* __restrict__ opacities,
               float* __restrict__ light, int rays, int count) {
  __shared__ float parts[kParts][kRays];
  const int lane = threadIdx.x % kRays, part = threadIdx.x / kRays;
  const int ray = blockIdx.x * kRays + lane, safe = min(ray, rays - 1);
  const Vector origin = load(origins + 3 * safe), direction = load(directions + 3 * safe);
  float passed = 1.0f;
  for (int t = part; t < count; t += kParts) {
    passed *= pass(origin, direction, triangles + 9 * t, opacities[t]);
  }
  parts[part][lane] = passed;
  __syncthreads();
  if (part != 0 || ray >= rays) return;
  for (int p = 1; p < kParts; ++p) passed *= parts[p][lane];
  light[ray] = passed;
}

}  // namespace

extern "C" int trace(const float* origins, const float* directions, const float* triangles,
                     const float* opacities, float* light, std::int64_t rays, std::int64_t count,
                     void* stream) {
  const int blocks = static_cast<int>((rays + kRays - 1) / kRays);
  trace_rays<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      origins, directions, triangles, opacities, light, static_cast<int>(rays),
      static_cast<int>(count));
  return static_cast<int>(cudaGetLastError());
}
