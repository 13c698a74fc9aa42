// kernel: triangles_merge_by_edge/without-branches/cuda
// change: the steps of the merge are comparisons that are added instead of branches
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    intersect_lists(const int* __restrict__ offsets, const int* __restrict__ sources,
                    const int* __restrict__ neighbours, int* __restrict__ common, int edges) {
  const int edge = blockIdx.x * kThreads + threadIdx.x;
  if (edge >= edges) return;
  const int u = sources[edge], v = neighbours[edge];
  int i = offsets[u], j = offsets[v];
  const int last_i = offsets[u + 1], last_j = offsets[v + 1];
  int count = 0;
  while (i < last_i && j < last_j) {
    const int left = neighbours[i], right = neighbours[j];
    count += left == right;
    i += left <= right;
    j += right <= left;
  }
  common[edge] = count;
}

}  // namespace

extern "C" int count_common(const int* offsets, const int* sources, const int* neighbours,
                            int* common, std::int64_t vertices, std::int64_t bounds,
                            std::int64_t edges, void* stream) {
  (void)vertices, (void)bounds;
  const int blocks = static_cast<int>((edges + kThreads - 1) / kThreads);
  intersect_lists<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      offsets, sources, neighbours, common, static_cast<int>(edges));
  return static_cast<int>(cudaGetLastError());
}
