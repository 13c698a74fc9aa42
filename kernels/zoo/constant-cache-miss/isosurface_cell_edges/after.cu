// kernel: isosurface_cell_edges/after/cuda
// change: the table of 1 KB is in global memory, read through L1
#include <cuda_runtime.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace {

constexpr int kBlockX = 64;
constexpr int kBlockY = 4;

struct CutEdges {
  int count[256];
};

// Number of the 12 edges of a cell whose two corners differ, for each pattern of corners.
constexpr CutEdges make_cut_edges() {
  CutEdges table{};
  for (int pattern = 0; pattern < 256; ++pattern) {
    for (int corner = 0; corner < 8; ++corner) {
      for (int axis = 1; axis < 8; axis *= 2) {
        if ((corner & axis) == 0) {
          table.count[pattern] += ((pattern >> corner) ^ (pattern >> (corner | axis))) & 1;
        }
      }
    }
  }
  return table;
}

__device__ const CutEdges kCutEdges = make_cut_edges();

__global__ void __launch_bounds__(kBlockX* kBlockY)
    classify(const __half* __restrict__ field, std::uint8_t* __restrict__ edges, float level,
             int depth, int h, int w) {
  const int x = blockIdx.x * kBlockX + threadIdx.x;
  const int y = blockIdx.y * kBlockY + threadIdx.y;
  const int z = blockIdx.z;
  if (x >= w || y >= h) return;
  const int step_x = x + 1 < w ? 1 : 0;
  const int step_y = y + 1 < h ? w : 0;
  const int step_z = z + 1 < depth ? h * w : 0;
  const int cell = (z * h + y) * w + x;
  int pattern = 0;
#pragma unroll
  for (int corner = 0; corner < 8; ++corner) {
    const int place = cell + (corner & 1 ? step_x : 0) + (corner & 2 ? step_y : 0) +
                      (corner & 4 ? step_z : 0);
    if (__half2float(field[place]) > level) pattern |= 1 << corner;
  }
  edges[cell] = static_cast<std::uint8_t>(kCutEdges.count[pattern]);
}

}  // namespace

extern "C" int classify_cells(const __half* field, double level, std::uint8_t* edges,
                              std::int64_t depth, std::int64_t h, std::int64_t w, void* stream) {
  const dim3 block(kBlockX, kBlockY);
  const dim3 grid(static_cast<unsigned>((w + kBlockX - 1) / kBlockX),
                  static_cast<unsigned>((h + kBlockY - 1) / kBlockY), static_cast<unsigned>(depth));
  classify<<<grid, block, 0, static_cast<cudaStream_t>(stream)>>>(
      field, edges, static_cast<float>(level), static_cast<int>(depth), static_cast<int>(h),
      static_cast<int>(w));
  return static_cast<int>(cudaGetLastError());
}
