// kernel: frontier_expand_by_vertex/before/cuda
// computes: the levels after one step of a breadth-first search
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kDepth = 3;

__global__ void __launch_bounds__(kThreads)
    expand_frontier(const int* __restrict__ offsets, const int* __restrict__ neighbours,
                    const int* __restrict__ frontier, int* levels, int count) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= count) return;
  const int vertex = frontier[i];
  const int last = offsets[vertex + 1];
  for (int e = offsets[vertex]; e < last; ++e) {
    const int other = neighbours[e];
    if (levels[other] < 0) levels[other] = kDepth;
  }
}

}  // namespace

extern "C" int expand(const int* offsets, const int* neighbours, const int* frontier,
                      const int* start, int* levels, std::int64_t vertices, std::int64_t half,
                      std::int64_t bounds, std::int64_t edges, void* stream) {
  (void)start, (void)vertices, (void)bounds, (void)edges;
  const int blocks = static_cast<int>((half + kThreads - 1) / kThreads);
  expand_frontier<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      offsets, neighbours, frontier, levels, static_cast<int>(half));
  return static_cast<int>(cudaGetLastError());
}
