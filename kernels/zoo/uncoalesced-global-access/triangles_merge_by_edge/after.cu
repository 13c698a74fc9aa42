// kernel: triangles_merge_by_edge/after/cuda
// change: a warp for each edge: its lanes look up the first list in the second by binary search
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    intersect_lists(const int* __restrict__ offsets, const int* __restrict__ sources,
                    const int* __restrict__ neighbours, int* __restrict__ common, int edges) {
  const int edge = (blockIdx.x * kThreads + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (edge >= edges) return;
  const int u = sources[edge], v = neighbours[edge];
  const int first_j = offsets[v], last_i = offsets[u + 1], last_j = offsets[v + 1];
  int count = 0;
  for (int i = offsets[u] + lane; i < last_i; i += 32) {
    const int wanted = neighbours[i];
    int low = first_j, high = last_j;
    while (low < high) {
      const int middle = (low + high) / 2;
      if (neighbours[middle] < wanted) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    count += low < last_j && neighbours[low] == wanted;
  }
  for (int step = 16; step > 0; step /= 2) count += __shfl_xor_sync(0xffffffffu, count, step);
  if (lane == 0) common[edge] = count;
}

}  // namespace

extern "C" int count_common(const int* offsets, const int* sources, const int* neighbours,
                            int* common, std::int64_t vertices, std::int64_t bounds,
                            std::int64_t edges, void* stream) {
  (void)vertices, (void)bounds;
  const int blocks = static_cast<int>((edges * 32 + kThreads - 1) / kThreads);
  intersect_lists<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      offsets, sources, neighbours, common, static_cast<int>(edges));
  return static_cast<int>(cudaGetLastError());
}
