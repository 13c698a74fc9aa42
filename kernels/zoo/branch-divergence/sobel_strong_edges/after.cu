// kernel: sobel_strong_edges/after/cuda
// change: the block lists its strong edges in shared memory, and full warps work through the list
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kWidth = 32;
constexpr int kRows = 8;
constexpr int kTile = 32;
constexpr int kThreshold = 800;

__device__ __forceinline__ int read(const std::uint8_t* __restrict__ image, int y, int x,
                                    int height, int width) {
  return image[min(max(y, 0), height - 1) * width + min(max(x, 0), width - 1)];
}

__device__ __forceinline__ void describe(int gx, int gy, float* angle, float* strength) {
  const float fx = static_cast<float>(gx);
  const float fy = static_cast<float>(gy);
  *angle = atan2f(fy, fx);
  *strength = powf(fx * fx + fy * fy, 0.225f);
}

// A block a tile of 32 by 32 pixels; weak edges get zeros.
__global__ void __launch_bounds__(kWidth * kRows)
    find_edges(const std::uint8_t* __restrict__ images, float* __restrict__ angles,
               float* __restrict__ strengths, std::int64_t height, std::int64_t width) {
  __shared__ int count;
  __shared__ int3 list[kWidth * kTile];
  const int thread = threadIdx.y * kWidth + threadIdx.x;
  if (thread == 0) count = 0;
  __syncthreads();
  const int h = static_cast<int>(height);
  const int w = static_cast<int>(width);
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.z) * height * width;
  const std::uint8_t* image = images + first;
  const int x = blockIdx.x * kWidth + threadIdx.x;
  for (int row = threadIdx.y; row < kTile; row += kRows) {
    const int y = blockIdx.y * kTile + row;
    if (x >= w || y >= h) continue;
    const int a = read(image, y - 1, x - 1, h, w);
    const int c = read(image, y - 1, x + 1, h, w);
    const int g = read(image, y + 1, x - 1, h, w);
    const int i = read(image, y + 1, x + 1, h, w);
    const int gx = c - a + 2 * (read(image, y, x + 1, h, w) - read(image, y, x - 1, h, w)) + i - g;
    const int gy = g - a + 2 * (read(image, y + 1, x, h, w) - read(image, y - 1, x, h, w)) + i - c;
    const int at = y * w + x;
    if (abs(gx) + abs(gy) > kThreshold) {
      list[atomicAdd(&count, 1)] = make_int3(at, gx, gy);
    } else {
      angles[first + at] = 0.0f;
      strengths[first + at] = 0.0f;
    }
  }
  __syncthreads();
  for (int k = thread; k < count; k += kWidth * kRows) {
    float angle = 0.0f;
    float strength = 0.0f;
    const int3 edge = list[k];
    describe(edge.y, edge.z, &angle, &strength);
    angles[first + edge.x] = angle;
    strengths[first + edge.x] = strength;
  }
}

}  // namespace

extern "C" int find_strong_edges(const std::uint8_t* images, float* angles, float* strengths,
                                 std::int64_t count, std::int64_t height, std::int64_t width,
                                 void* stream) {
  const dim3 grid(static_cast<unsigned int>((width + kWidth - 1) / kWidth),
                  static_cast<unsigned int>((height + kTile - 1) / kTile),
                  static_cast<unsigned int>(count));
  const dim3 block(kWidth, kRows);
  find_edges<<<grid, block, 0, static_cast<cudaStream_t>(stream)>>>(images, angles, strengths,
                                                                    height, width);
  return static_cast<int>(cudaGetLastError());
}
