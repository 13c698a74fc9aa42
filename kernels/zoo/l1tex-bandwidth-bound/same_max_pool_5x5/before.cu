// kernel: same_max_pool_5x5/before/cuda
// flaw: every output loads its 25 pixels through L1, each with its own bounds check
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kTileX = 32;
constexpr int kTileY = 8;
constexpr int kRadius = 2;
constexpr float kLowest = -65504.0f;

__global__ void __launch_bounds__(kTileX* kTileY)
    max_pool(const __half* __restrict__ in, __half* __restrict__ out, int height, int width) {
  const std::int64_t plane = static_cast<std::int64_t>(blockIdx.z) * height * width;
  const int x = blockIdx.x * kTileX + threadIdx.x;
  const int y = blockIdx.y * kTileY + threadIdx.y;
  if (x >= width || y >= height) return;
  __half best = __float2half(kLowest);
#pragma unroll
  for (int dy = -kRadius; dy <= kRadius; ++dy) {
#pragma unroll
    for (int dx = -kRadius; dx <= kRadius; ++dx) {
      const int yy = y + dy;
      const int xx = x + dx;
      if (yy >= 0 && yy < height && xx >= 0 && xx < width) {
        best = __hmax(best, in[plane + yy * width + xx]);
      }
    }
  }
  out[plane + y * width + x] = best;
}

}  // namespace

extern "C" int same_max_pool(const __half* in, __half* out, std::int64_t planes,
                             std::int64_t height, std::int64_t width, void* stream) {
  const dim3 threads(kTileX, kTileY);
  const dim3 blocks(static_cast<unsigned>((width + kTileX - 1) / kTileX),
                    static_cast<unsigned>((height + kTileY - 1) / kTileY),
                    static_cast<unsigned>(planes));
  max_pool<<<blocks, threads, 0, static_cast<cudaStream_t>(stream)>>>(
      in, out, static_cast<int>(height), static_cast<int>(width));
  return static_cast<int>(cudaGetLastError());
}
