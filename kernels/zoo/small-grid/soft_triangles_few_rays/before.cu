// kernel: soft_triangles_few_rays/before/cuda
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 128;

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
  const int ray = blockIdx.x * kThreads + threadIdx.x;
  if (ray >= rays) return;
  const Vector origin = load(origins + 3 * ray), direction = load(directions + 3 * ray);
  float passed = 1.0f;
  for (int t = 0; t < count; ++t) {
    passed *= pass(origin, direction, triangles + 9 * t, opacities[t]);
  }
  light[ray] = passed;
}

}  // namespace

extern "C" int trace(const float* origins, const float* directions, const float* triangles,
                     const float* opacities, float* light, std::int64_t rays, std::int64_t count,
                     void* stream) {
  const int blocks = static_cast<int>((rays + kThreads - 1) / kThreads);
  trace_rays<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      origins, directions, triangles, opacities, light, static_cast<int>(rays),
      static_cast<int>(count));
  return static_cast<int>(cudaGetLastError());
}
