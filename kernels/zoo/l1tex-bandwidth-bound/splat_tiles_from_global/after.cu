// kernel: splat_tiles_from_global/after/cuda
// change: the block copies 64 splats of its list to shared memory at a time
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kEdge = 16;  // pixels of a tile's side
constexpr int kPixels = kEdge * kEdge;
constexpr int kBatch = 64;
constexpr int kFields = 9;  // x, y, three of the shape, opacity, red, green, blue

__global__ void __launch_bounds__(kPixels)
    blend_tiles(const float* __restrict__ splats, const int* __restrict__ lists,
                float* __restrict__ image, int depth) {
  __shared__ float4 batch[kBatch][3];
  const int pixel = threadIdx.x;
  const float x = (pixel % kEdge + 0.5f) / kEdge, y = (pixel / kEdge + 0.5f) / kEdge;
  const int* list = lists + static_cast<std::int64_t>(blockIdx.x) * depth;
  float passed = 1.0f, red = 0.0f, green = 0.0f, blue = 0.0f;
  for (int first = 0; first < depth; first += kBatch) {
    const int count = min(kBatch, depth - first);
    __syncthreads();
    for (int i = threadIdx.x; i < count * kFields; i += kPixels) {
      const int k = i / kFields, field = i % kFields;
      reinterpret_cast<float*>(batch[k])[field] =
          splats[static_cast<std::int64_t>(list[first + k]) * kFields + field];
    }
    __syncthreads();
    for (int k = 0; k < count; ++k) {
      const float4 place = batch[k][0], shape = batch[k][1];
      const float dx = x - place.x, dy = y - place.y;
      const float power = place.z * dx * dx + place.w * dx * dy + shape.x * dy * dy;
      const float opacity = fmaxf(0.2f * shape.y, 0.0f);
      const float alpha = fminf(opacity * expf(-8.0f * fmaxf(power, 0.0f)), 0.99f);
      const float weight = alpha * passed;
      red += weight * shape.z;
      green += weight * shape.w;
      blue += weight * batch[k][2].x;
      passed -= weight;
    }
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
