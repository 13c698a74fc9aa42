// kernel: polygon_areas/small-blocks/cuda
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 128;
constexpr int kLanes = 32;

__device__ __forceinline__ float add_up(float value) {
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, step);
  }
  return value;
}

// The vertices of polygon i are those from starts[i] to starts[i + 1]; the last joins the first.
__global__ void __launch_bounds__(kThreads)
    measure_polygons(const float2* __restrict__ points, const int* __restrict__ starts,
                     float* __restrict__ areas, float* __restrict__ lengths, int vertices,
                     int polygons) {
  const int polygon = (blockIdx.x * kThreads + threadIdx.x) / kLanes;
  const int lane = threadIdx.x % kLanes;
  if (polygon >= polygons) return;
  const int first = starts[polygon];
  const int last = polygon + 1 < polygons ? starts[polygon + 1] : vertices;
  float twice = 0.0f, length = 0.0f;
  for (int i = first + lane; i < last; i += kLanes) {
    const float2 a = points[i];
    const float2 b = points[i + 1 < last ? i + 1 : first];
    const float dx = b.x - a.x, dy = b.y - a.y;
    twice += a.x * b.y - a.y * b.x;
    length += sqrtf(dx * dx + dy * dy);
  }
  twice = add_up(twice);
  length = add_up(length);
  if (lane == 0) {
    areas[polygon] = 0.5f * twice;
    lengths[polygon] = length;
  }
}

}  // namespace

extern "C" int measure(const float* points, const int* starts, float* areas, float* lengths,
                       std::int64_t vertices, std::int64_t polygons, void* stream) {
  constexpr int kPerBlock = kThreads / kLanes;
  const int blocks = static_cast<int>((polygons + kPerBlock - 1) / kPerBlock);
  measure_polygons<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      reinterpret_cast<const float2*>(points), starts, areas, lengths,
      static_cast<int>(vertices), static_cast<int>(polygons));
  return static_cast<int>(cudaGetLastError());
}
