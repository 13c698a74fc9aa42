// kernel: patch_filter_borders/after/cuda
// change: inner pixels and border pixels are handled one after the other, each by full warps
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kSide = 38;
constexpr int kRadius = 3;
constexpr int kInner = kSide - 2 * kRadius;
constexpr int kPixels = kSide * kSide;

__device__ int reflect(int i) {
  i = abs(i);
  return i < kSide ? i : 2 * (kSide - 1) - i;
}

__device__ float filter_inner(const float* patch, int pixel) {
  const float center = patch[pixel];
  float total = 0.0f, weights = 0.0f;
#pragma unroll
  for (int dy = -kRadius; dy <= kRadius; ++dy) {
#pragma unroll
    for (int dx = -kRadius; dx <= kRadius; ++dx) {
      const float tap = patch[pixel + dy * kSide + dx];
      const float weight = 1.0f - (tap - center) * (tap - center);
      total += weight * tap;
      weights += weight;
    }
  }
  return total / weights;
}

__device__ float filter_border(const float* patch, int pixel) {
  const int y = pixel / kSide, x = pixel % kSide;
  const float center = patch[pixel];
  float total = 0.0f, weights = 0.0f;
  for (int dy = -kRadius; dy <= kRadius; ++dy) {
    const float* row = patch + reflect(y + dy) * kSide;
#pragma unroll
    for (int dx = -kRadius; dx <= kRadius; ++dx) {
      const float tap = row[reflect(x + dx)];
      const float weight = 1.0f - (tap - center) * (tap - center);
      total += weight * tap;
      weights += weight;
    }
  }
  return total / weights;
}

// Returns border pixel i of a patch: the rows above, the rows below, then both sides.
__device__ int border_pixel(int i) {
  constexpr int kRows = kRadius * kSide;
  if (i < kRows) return i;
  if (i < 2 * kRows) return i + kInner * kSide;
  i -= 2 * kRows;
  const int x = i % (2 * kRadius);
  return (kRadius + i / (2 * kRadius)) * kSide + (x < kRadius ? x : x + kInner);
}

__global__ void __launch_bounds__(kThreads)
    filter_patch(const float* __restrict__ image, float* __restrict__ result) {
  __shared__ float patch[kPixels];
  image += static_cast<std::int64_t>(blockIdx.x) * kPixels;
  result += static_cast<std::int64_t>(blockIdx.x) * kPixels;
  for (int pixel = threadIdx.x; pixel < kPixels; pixel += kThreads) patch[pixel] = image[pixel];
  __syncthreads();
  for (int i = threadIdx.x; i < kInner * kInner; i += kThreads) {
    const int pixel = (kRadius + i / kInner) * kSide + kRadius + i % kInner;
    result[pixel] = filter_inner(patch, pixel);
  }
  for (int i = threadIdx.x; i < kPixels - kInner * kInner; i += kThreads) {
    const int pixel = border_pixel(i);
    result[pixel] = filter_border(patch, pixel);
  }
}

}  // namespace

extern "C" int filter_patches(const float* image, float* result, std::int64_t patches,
                              void* stream) {
  filter_patch<<<static_cast<int>(patches), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      image, result);
  return static_cast<int>(cudaGetLastError());
}
