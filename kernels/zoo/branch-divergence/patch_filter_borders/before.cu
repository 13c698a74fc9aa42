// kernel: patch_filter_borders/before/cuda
// flaw: nearly every warp holds border and inner pixels and runs both paths
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

__global__ void __launch_bounds__(kThreads)
    filter_patch(const float* __restrict__ image, float* __restrict__ result) {
  __shared__ float patch[kPixels];
  image += static_cast<std::int64_t>(blockIdx.x) * kPixels;
  result += static_cast<std::int64_t>(blockIdx.x) * kPixels;
  for (int pixel = threadIdx.x; pixel < kPixels; pixel += kThreads) patch[pixel] = image[pixel];
  __syncthreads();
  for (int pixel = threadIdx.x; pixel < kPixels; pixel += kThreads) {
    const int y = pixel / kSide - kRadius, x = pixel % kSide - kRadius;
    if (y >= 0 && y < kInner && x >= 0 && x < kInner) {
      result[pixel] = filter_inner(patch, pixel);
    } else {
      result[pixel] = filter_border(patch, pixel);
    }
  }
}

}  // namespace

extern "C" int filter_patches(const float* image, float* result, std::int64_t patches,
                              void* stream) {
  filter_patch<<<static_cast<int>(patches), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      image, result);
  return static_cast<int>(cudaGetLastError());
}
