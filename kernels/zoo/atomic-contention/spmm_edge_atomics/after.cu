// kernel: spmm_edge_atomics/after/cuda
// change: a warp owns a target, adds up its edges in registers and writes once
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kFeatures = 64;

__global__ void __launch_bounds__(kThreads)
    add_messages(const int* __restrict__ offsets, const int* __restrict__ edge_sources,
                 const float* __restrict__ weights, const float* __restrict__ features,
                 float* __restrict__ sums, int targets) {
  const int own = (blockIdx.x * kThreads + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (own >= targets) return;
  float low = 0.0f, high = 0.0f;
  const int last = offsets[own + 1];
#pragma unroll 4
  for (int edge = offsets[own]; edge < last; ++edge) {
    const float weight = weights[edge];
    const float* source = features + static_cast<std::int64_t>(edge_sources[edge]) * kFeatures;
    low += weight * source[lane];
    high += weight * source[lane + 32];
  }
  float* target = sums + static_cast<std::int64_t>(own) * kFeatures;
  target[lane] += low;
  target[lane + 32] += high;
}

}  // namespace

extern "C" int aggregate(const int* offsets, const int* edge_targets, const int* edge_sources,
                         const float* weights, const float* features, const float* start,
                         float* sums, std::int64_t targets, std::int64_t bounds,
                         std::int64_t edges, std::int64_t sources, void* stream) {
  (void)edge_targets, (void)start, (void)edges, (void)bounds, (void)sources;
  const int blocks = static_cast<int>((targets * 32 + kThreads - 1) / kThreads);
  add_messages<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      offsets, edge_sources, weights, features, sums, static_cast<int>(targets));
  return static_cast<int>(cudaGetLastError());
}
