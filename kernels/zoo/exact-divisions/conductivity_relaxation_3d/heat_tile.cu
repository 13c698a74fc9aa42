// kernel: conductivity_relaxation_3d/heat-tile/cuda
// change: the heat of a block and its border is staged in shared memory
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kWidth = 32;
constexpr int kHeight = 8;

__device__ __forceinline__ float conduct(float value) { return 0.1f + value * value; }

// Conductivity of the face between two cells: their harmonic mean.
__device__ __forceinline__ float face(float one, float other) {
  return 2.0f * one * other / (one + other);
}

__global__ void __launch_bounds__(kWidth* kHeight)
    relax_cells(const float* __restrict__ heat, const float* __restrict__ material,
                const float* __restrict__ source, float* __restrict__ relaxed, int depth,
                int height, int width) {
  __shared__ float tile[kHeight + 2][kWidth + 2];
  const int x = blockIdx.x * kWidth + threadIdx.x;
  const int y = blockIdx.y * kHeight + threadIdx.y;
  const int z = blockIdx.z;
  const std::int64_t plane = static_cast<std::int64_t>(height) * width;
  for (int i = threadIdx.y * kWidth + threadIdx.x; i < (kHeight + 2) * (kWidth + 2);
       i += kWidth * kHeight) {
    const int row = i / (kWidth + 2), column = i % (kWidth + 2);
    const int to_y = min(max(static_cast<int>(blockIdx.y) * kHeight + row - 1, 0), height - 1);
    const int to_x = min(max(static_cast<int>(blockIdx.x) * kWidth + column - 1, 0), width - 1);
    tile[row][column] = heat[z * plane + static_cast<std::int64_t>(to_y) * width + to_x];
  }
  __syncthreads();
  if (x >= width || y >= height) return;
  const std::int64_t at = z * plane + static_cast<std::int64_t>(y) * width + x;
  const std::int64_t beside[6] = {
      x > 0 ? at - 1 : at,     x + 1 < width ? at + 1 : at,      y > 0 ? at - width : at,
      y + 1 < height ? at + width : at, z > 0 ? at - plane : at, z + 1 < depth ? at + plane : at};
  const int row = threadIdx.y + 1, column = threadIdx.x + 1;
  const float around[6] = {tile[row][column - 1], tile[row][column + 1], tile[row - 1][column],
                           tile[row + 1][column], heat[beside[4]],       heat[beside[5]]};
  const float own = conduct(material[at]);
  float sum = source[at], weight = 0.1f;
#pragma unroll
  for (int side = 0; side < 6; ++side) {
    const float through = face(own, conduct(material[beside[side]]));
    sum += through * around[side];
    weight += through;
  }
  relaxed[at] = sum / weight;
}

}  // namespace

extern "C" int relax(const float* heat, const float* material, const float* source,
                     float* relaxed, std::int64_t depth, std::int64_t height, std::int64_t width,
                     void* stream) {
  const dim3 blocks(static_cast<unsigned>((width + kWidth - 1) / kWidth),
                    static_cast<unsigned>((height + kHeight - 1) / kHeight),
                    static_cast<unsigned>(depth));
  relax_cells<<<blocks, dim3(kWidth, kHeight), 0, static_cast<cudaStream_t>(stream)>>>(
      heat, material, source, relaxed, static_cast<int>(depth), static_cast<int>(height),
      static_cast<int>(width));
  return static_cast<int>(cudaGetLastError());
}
