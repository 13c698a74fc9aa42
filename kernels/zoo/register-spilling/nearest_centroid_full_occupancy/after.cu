// kernel: nearest_centroid_full_occupancy/after/cuda
// change: 3 resident blocks instead of 8, so up to 80 registers instead of 32
#include <cuda_runtime.h>

#include <cfloat>
#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kBlocksPerSm = 3;
constexpr int kCoordinates = 48;
constexpr int kCentroids = 256;
constexpr int kStaged = 128;

__global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    find_nearest(const float* __restrict__ points, const float* __restrict__ centroids,
                 float* __restrict__ nearest, std::int64_t n) {
  __shared__ float staged[kStaged * kCoordinates];
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  float point[kCoordinates];
#pragma unroll
  for (int d = 0; d < kCoordinates; ++d) point[d] = i < n ? points[d * n + i] : 0.0f;
  float smallest = FLT_MAX;
  for (int first = 0; first < kCentroids; first += kStaged) {
    for (int k = threadIdx.x; k < kStaged * kCoordinates; k += kThreads) {
      staged[k] = centroids[first * kCoordinates + k];
    }
    __syncthreads();
    for (int c = 0; c < kStaged; ++c) {
      float sum = 0.0f;
#pragma unroll
      for (int d = 0; d < kCoordinates; ++d) {
        const float difference = point[d] - staged[c * kCoordinates + d];
        sum += difference * difference;
      }
      smallest = fminf(smallest, sum);
    }
    __syncthreads();
  }
  if (i < n) nearest[i] = smallest;
}

}  // namespace

extern "C" int nearest_distance(const float* points, const float* centroids, float* nearest,
                                std::int64_t n, void* stream) {
  const int blocks = static_cast<int>((n + kThreads - 1) / kThreads);
  find_nearest<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(points, centroids,
                                                                           nearest, n);
  return static_cast<int>(cudaGetLastError());
}
