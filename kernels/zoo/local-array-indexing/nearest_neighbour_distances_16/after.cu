// kernel: nearest_neighbour_distances_16/after/cuda
// change: an unrolled insertion with constant indices
#include <cuda_runtime.h>

#include <cfloat>
#include <cstdint>

namespace {

constexpr int kThreads = 128;
constexpr int kTile = 256;
constexpr int kKept = 16;

// A thread searches the neighbours of one point; points of the cloud pass by in tiles.
__global__ void __launch_bounds__(kThreads)
    keep_nearest(const float* __restrict__ places, float* __restrict__ distances, int points) {
  __shared__ float3 tile[kTile];
  const int cloud = blockIdx.y;
  const int index = blockIdx.x * kThreads + threadIdx.x;
  const float3* cloud_places =
      reinterpret_cast<const float3*>(places) + static_cast<std::int64_t>(cloud) * points;
  const float3 own = cloud_places[min(index, points - 1)];
  float nearest[kKept];
#pragma unroll
  for (int i = 0; i < kKept; ++i) nearest[i] = FLT_MAX;

  for (int first = 0; first < points; first += kTile) {
    __syncthreads();
    for (int i = threadIdx.x; i < kTile; i += kThreads) {
      if (first + i < points) tile[i] = cloud_places[first + i];
    }
    __syncthreads();
    const int count = min(kTile, points - first);
    for (int i = 0; i < count; ++i) {
      const float3 other = tile[i];
      const float dx = own.x - other.x;
      const float dy = own.y - other.y;
      const float dz = own.z - other.z;
      const float distance = dx * dx + dy * dy + dz * dz;
      if (distance >= nearest[kKept - 1]) continue;
#pragma unroll
      for (int place = kKept - 1; place > 0; --place) {
        nearest[place] = fminf(nearest[place], fmaxf(nearest[place - 1], distance));
      }
      nearest[0] = fminf(nearest[0], distance);
    }
  }
  if (index >= points) return;
  float* to = distances + (static_cast<std::int64_t>(cloud) * points + index) * kKept;
#pragma unroll
  for (int i = 0; i < kKept; ++i) to[i] = nearest[i];
}

}  // namespace

extern "C" int find_nearest(const float* places, float* distances, std::int64_t clouds,
                            std::int64_t points, void* stream) {
  const dim3 grid(static_cast<unsigned>((points + kThreads - 1) / kThreads),
                  static_cast<unsigned>(clouds));
  keep_nearest<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      places, distances, static_cast<int>(points));
  return static_cast<int>(cudaGetLastError());
}
