// kernel: spmm_edge_atomics/before/cuda
// computes: weighted feature rows added up by target
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kFeatures = 64;

__global__ void __launch_bounds__(kThreads)
    add_messages(const int* __restrict__ edge_targets, const int* __restrict__ edge_sources,
                 const float* __restrict__ weights, const float* __restrict__ features,
                 float* __restrict__ sums, int edges) {
  const int edge = (blockIdx.x * kThreads + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (edge >= edges) return;
  const float weight = weights[edge];
  const float* source = features + static_cast<std::int64_t>(edge_sources[edge]) * kFeatures;
  float* target = sums + static_cast<std::int64_t>(edge_targets[edge]) * kFeatures;
  const float low = source[lane], high = source[lane + 32];
  atomicAdd(target + lane, weight * low);
  atomicAdd(target + lane + 32, weight * high);
}

}  // namespace

extern "C" int aggregate(const int* offsets, const int* edge_targets, const int* edge_sources,
                         const float* weights, const float* features, const float* start,
                         float* sums, std::int64_t targets, std::int64_t bounds,
                         std::int64_t edges, std::int64_t sources, void* stream) {
  (void)offsets, (void)start, (void)targets, (void)bounds, (void)sources;
  const int blocks = static_cast<int>((edges * 32 + kThreads - 1) / kThreads);
  add_messages<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      edge_targets, edge_sources, weights, features, sums, static_cast<int>(edges));
  return static_cast<int>(cudaGetLastError());
}
