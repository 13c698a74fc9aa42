// kernel: same_max_pool_5x5/after/cuda
// change: the block stages its 32 x 8 tile with a halo of 2 pixels in shared memory
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kTileX = 32;
constexpr int kTileY = 8;
constexpr int kRadius = 2;
constexpr int kHaloX = kTileX + 2 * kRadius;
constexpr int kHaloY = kTileY + 2 * kRadius;
constexpr float kLowest = -65504.0f;

__global__ void __launch_bounds__(kTileX* kTileY)
    max_pool(const __half* __restrict__ in, __half* __restrict__ out, int height, int width) {
  __shared__ __half tile[kHaloY][kHaloX];
  const std::int64_t plane = static_cast<std::int64_t>(blockIdx.z) * height * width;
  const int x = blockIdx.x * kTileX + threadIdx.x;
  const int y = blockIdx.y * kTileY + threadIdx.y;
  for (int i = threadIdx.y * kTileX + threadIdx.x; i < kHaloX * kHaloY; i += kTileX * kTileY) {
    const int yy = static_cast<int>(blockIdx.y) * kTileY + i / kHaloX - kRadius;
    const int xx = static_cast<int>(blockIdx.x) * kTileX + i % kHaloX - kRadius;
    const bool inside = yy >= 0 && yy < height && xx >= 0 && xx < width;
    tile[i / kHaloX][i % kHaloX] = inside ? in[plane + yy * width + xx] : __float2half(kLowest);
  }
  __syncthreads();
  if (x >= width || y >= height) return;
  __half best = __float2half(kLowest);
#pragma unroll
  for (int dy = 0; dy <= 2 * kRadius; ++dy) {
#pragma unroll
    for (int dx = 0; dx <= 2 * kRadius; ++dx) {
      best = __hmax(best, tile[threadIdx.y + dy][threadIdx.x + dx]);
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
