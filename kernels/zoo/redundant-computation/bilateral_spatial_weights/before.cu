// kernel: bilateral_spatial_weights/before/cuda
// flaw: the weight of a distance, the same for every pixel, is computed anew for each tap
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kWidth = 32;
constexpr int kHeight = 8;
constexpr int kMaxRadius = 4;

// A thread a pixel; the tile with its margin lies in shared memory. The radius is at most 4.
__global__ void __launch_bounds__(kWidth * kHeight)
    smooth(const __half* __restrict__ image, __half* __restrict__ out, float space, float range,
           int radius, std::int64_t height, std::int64_t width) {
  __shared__ float tile[kHeight + 2 * kMaxRadius][kWidth + 2 * kMaxRadius];
  const int h = static_cast<int>(height);
  const int w = static_cast<int>(width);
  const int thread = threadIdx.y * kWidth + threadIdx.x;
  const int left = blockIdx.x * kWidth - kMaxRadius;
  const int top = blockIdx.y * kHeight - kMaxRadius;
  constexpr int kColumns = kWidth + 2 * kMaxRadius;
  for (int k = thread; k < kColumns * (kHeight + 2 * kMaxRadius); k += kWidth * kHeight) {
    const int y = min(max(top + k / kColumns, 0), h - 1);
    const int x = min(max(left + k % kColumns, 0), w - 1);
    tile[k / kColumns][k % kColumns] = __half2float(image[static_cast<std::int64_t>(y) * w + x]);
  }
  __syncthreads();
  const int x = left + kMaxRadius + threadIdx.x;
  const int y = top + kMaxRadius + threadIdx.y;
  const float center = tile[threadIdx.y + kMaxRadius][threadIdx.x + kMaxRadius];
  float sum = 0.0f;
  float weights = 0.0f;
  for (int dy = -radius; dy <= radius; ++dy) {
    for (int dx = -radius; dx <= radius; ++dx) {
      const float value = tile[threadIdx.y + kMaxRadius + dy][threadIdx.x + kMaxRadius + dx];
      const float near = expf(-static_cast<float>(dx * dx + dy * dy) * space);
      const float difference = value - center;
      const float weight = near * expf(-difference * difference * range);
      sum += weight * value;
      weights += weight;
    }
  }
  if (x < w && y < h) out[static_cast<std::int64_t>(y) * w + x] = __float2half(sum / weights);
}

}  // namespace

extern "C" int smooth_image(const __half* image, double space, double range, std::int64_t radius,
                            __half* out, std::int64_t height, std::int64_t width, void* stream) {
  const dim3 grid(static_cast<unsigned int>((width + kWidth - 1) / kWidth),
                  static_cast<unsigned int>((height + kHeight - 1) / kHeight));
  const dim3 block(kWidth, kHeight);
  smooth<<<grid, block, 0, static_cast<cudaStream_t>(stream)>>>(
      image, out, static_cast<float>(space), static_cast<float>(range), static_cast<int>(radius),
      height, width);
  return static_cast<int>(cudaGetLastError());
}
