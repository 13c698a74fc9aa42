// kernel: sdf_segment_opacity/after/cuda
// change: each block of 512 first sorts its rays by the kind of their shape
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 512;
constexpr int kKinds = 8;
constexpr int kSteps = 64;
constexpr float kStep = 4.0f / kSteps;

__device__ float length(float x, float y) { return sqrtf(x * x + y * y); }
__device__ float length(float x, float y, float z) { return sqrtf(x * x + y * y + z * z); }

__device__ float shape_distance(int kind, float x, float y, float z) {
  switch (kind) {
    case 0:  // sphere
      return length(x, y, z) - 1.0f;
    case 1: {  // box
      const float qx = fabsf(x) - 0.8f;
      const float qy = fabsf(y) - 0.6f;
      const float qz = fabsf(z) - 0.7f;
      return length(fmaxf(qx, 0.0f), fmaxf(qy, 0.0f), fmaxf(qz, 0.0f)) +
             fminf(fmaxf(qx, fmaxf(qy, qz)), 0.0f);
    }
    case 2:  // torus
      return length(length(x, z) - 1.0f, y) - 0.35f;
    case 3: {  // capsule
      const float along = fminf(fmaxf(0.4f * x + 0.5f * y + 0.3f * z, 0.0f), 1.0f);
      return length(x - along, y - 0.9f * along, z - 0.5f * along) - 0.4f;
    }
    case 4: {  // cylinder
      const float side = length(x, z) - 0.7f;
      const float cap = fabsf(y) - 0.9f;
      return length(fmaxf(side, 0.0f), fmaxf(cap, 0.0f)) + fminf(fmaxf(side, cap), 0.0f);
    }
    case 5: {  // ellipsoid
      const float outer = length(x, 1.25f * y, 2.0f * z);
      const float inner = length(x, 1.5625f * y, 4.0f * z);
      return outer * (outer - 1.0f) / (inner + 1.0e-3f);
    }
    case 6: {  // cone
      const float radius = length(x, z);
      return fmaxf(0.8f * radius + 0.6f * (y - 1.0f), -0.5f - y);
    }
    default:  // gyroid
      return (sinf(3.0f * x) * cosf(3.0f * y) + sinf(3.0f * y) * cosf(3.0f * z) +
              sinf(3.0f * z) * cosf(3.0f * x)) / 3.0f;
  }
}

__global__ void __launch_bounds__(kThreads)
    trace_segments(const int* __restrict__ kind, const float* __restrict__ origin,
                   const float* __restrict__ direction, float* __restrict__ opacity,
                   std::int64_t n) {
  __shared__ int counts[kKinds + 1];
  __shared__ int order[kThreads];
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kThreads;
  if (threadIdx.x <= kKinds) counts[threadIdx.x] = 0;
  __syncthreads();
  const int own = first + threadIdx.x < n ? kind[first + threadIdx.x] : kKinds;
  const int rank = atomicAdd(&counts[own], 1);
  __syncthreads();
  int start = 0;
  for (int k = 0; k < own; ++k) start += counts[k];
  order[start + rank] = threadIdx.x;
  __syncthreads();
  const std::int64_t i = first + order[threadIdx.x];
  if (i >= n) return;
  const int shape = kind[i];
  const float ox = origin[i];
  const float oy = origin[n + i];
  const float oz = origin[2 * n + i];
  float dx = direction[i];
  float dy = direction[n + i];
  float dz = direction[2 * n + i];
  const float inverse = 1.0f / sqrtf(dx * dx + dy * dy + dz * dz + 0.01f);
  dx *= inverse;
  dy *= inverse;
  dz *= inverse;
  float depth = 0.0f;
  for (int step = 0; step < kSteps; ++step) {
    const float t = kStep * (static_cast<float>(step) + 0.5f);
    const float distance = shape_distance(shape, ox + t * dx, oy + t * dy, oz + t * dz);
    depth += kStep * fmaxf(1.0f - distance, 0.0f);
  }
  opacity[i] = 1.0f - expf(-depth);
}

}  // namespace

extern "C" int segment_opacity(const int* kind, const float* origin, const float* direction,
                               float* opacity, std::int64_t n, void* stream) {
  const unsigned blocks = static_cast<unsigned>((n + kThreads - 1) / kThreads);
  trace_segments<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      kind, origin, direction, opacity, n);
  return static_cast<int>(cudaGetLastError());
}
