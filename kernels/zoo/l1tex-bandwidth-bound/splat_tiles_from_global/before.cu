// kernel: splat_tiles_from_global/before/cuda
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kEdge = 16;  // pixels of a tile's side
constexpr int kPixels = kEdge * kEdge;
constexpr int kFields = 9;  // x, y, three of the shape, opacity, red, green, blue

__global__ void __launch_bounds__(kPixels)
    blend_tiles(const float* __restrict__ splats, const int* __restrict__ lists,
                float* __restrict__ image, int depth) {
  const int pixel = threadIdx.x;
  const float x = (pixel % kEdge + 0.5f) / kEdge, y = (pixel / kEdge + 0.5f) / kEdge;
  const int* list = lists + static_cast<std::int64_t>(blockIdx.x) * depth;
  float passed = 1.0f, red = 0.0f, green = 0.0f, blue = 0.0f;
  for (int k = 0; k < depth; ++k) {
    const float* splat = splats + static_cast<std::int64_t>(list[k]) * kFields;
    const float dx = x - splat[0], dy = y - splat[1];
    const float power = splat[2] * dx * dx + splat[3] * dx * dy + splat[4] * dy * dy;
    const float opacity = fmaxf(0.2f * splat[5], 0.0f);
    const float alpha = fminf(opacity * expf(-8.0f * fmaxf(power, 0.0f)), 0.99f);
    const float weight = alpha * passed;
    red += weight * splat[6];
    green += weight * splat[7];
    blue += weight * splat[8];
    passed -= weight;
  }
  float* to = image + (static_cast<std::int64_t>(blockIdx.x) * kPixels + pixel) * 3;
  to[0] = red;
  to[1] = green;
  to[2] = blue;
}

}  // namespace

extern "C" int blend(const float* splats, const int* lists, float* image, std::int64_t tiles,
                     std::int64_t depth, void* stream) {
  blend_tiles<<<static_cast<unsigned>(tiles), kPixels, 0, static_cast<cudaStream_t>(stream)>>>(
      splats, lists, image, static_cast<int>(depth));
  return static_cast<int>(cudaGetLastError());
}
