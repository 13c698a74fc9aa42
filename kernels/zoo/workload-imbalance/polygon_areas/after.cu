// kernel: polygon_areas/after/cuda
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kLanes = 32;
constexpr int kShare = 256;  // vertices of a warp

__device__ __forceinline__ float add_up(float value) {
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, step);
  }
  return value;
}

// The vertices of polygon i are those from starts[i] to starts[i + 1]; the last joins the first.
// A warp takes 256 vertices, of one polygon or of several.
__global__ void __launch_bounds__(kThreads)
    measure_polygons(const float2* __restrict__ points, const int* __restrict__ starts,
                     float* __restrict__ areas, float* __restrict__ lengths, int vertices,
                     int polygons) {
  const int warp = (blockIdx.x * kThreads + threadIdx.x) / kLanes;
  const int lane = threadIdx.x % kLanes;
  int at = warp * kShare;
  const int end = min(at + kShare, vertices);
  if (at >= end) return;
  int polygon = 0;  // the last that begins at `at` or before
  for (int beyond = polygons; beyond - polygon > 1;) {
    const int middle = (polygon + beyond) / 2;
    if (starts[middle] <= at) {
      polygon = middle;
    } else {
      beyond = middle;
    }
  }
  for (; at < end; ++polygon) {
    const int first = starts[polygon];
    const int last = polygon + 1 < polygons ? starts[polygon + 1] : vertices;
    const int stop = min(last, end);
    if (at >= stop) continue;
    float twice = 0.0f, length = 0.0f;
    for (int i = at + lane; i < stop; i += kLanes) {
      const float2 a = points[i];
      const float2 b = points[i + 1 < last ? i + 1 : first];
      const float dx = b.x - a.x, dy = b.y - a.y;
      twice += a.x * b.y - a.y * b.x;
      length += sqrtf(dx * dx + dy * dy);
    }
    twice = add_up(twice);
    length = add_up(length);
    if (lane == 0) {
      atomicAdd(&areas[polygon], 0.5f * twice);
      atomicAdd(&lengths[polygon], length);
    }
    at = stop;
  }
}

}  // namespace

extern "C" int measure(const float* points, const int* starts, float* areas, float* lengths,
                       std::int64_t vertices, std::int64_t polygons, void* stream) {
  constexpr int kPerBlock = kThreads / kLanes * kShare;
  const int blocks = static_cast<int>((vertices + kPerBlock - 1) / kPerBlock);
  const auto queue = static_cast<cudaStream_t>(stream);
  cudaMemsetAsync(areas, 0, polygons * sizeof(float), queue);
  cudaMemsetAsync(lengths, 0, polygons * sizeof(float), queue);
  measure_polygons<<<blocks, kThreads, 0, queue>>>(
      reinterpret_cast<const float2*>(points), starts, areas, lengths,
      static_cast<int>(vertices), static_cast<int>(polygons));
  return static_cast<int>(cudaGetLastError());
}
