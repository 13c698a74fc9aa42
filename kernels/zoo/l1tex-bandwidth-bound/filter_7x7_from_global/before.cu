// kernel: filter_7x7_from_global/before/cuda
// flaw: 49 global loads for each output, most of them across two cache lines
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kWidth = 32;
constexpr int kHeight = 8;
constexpr int kTaps = 7;
constexpr int kThreads = kWidth * kHeight;

__global__ void __launch_bounds__(kThreads)
    filter_pixels(const float* __restrict__ image, const float* __restrict__ weights,
                  float* __restrict__ out, int h, int w, int ph, int pw) {
  __shared__ __align__(16) float taps[kTaps * kTaps];
  const int tx = threadIdx.x % kWidth, ty = threadIdx.x / kWidth;
  const int x = blockIdx.x * kWidth + tx, y = blockIdx.y * kHeight + ty;
  if (threadIdx.x < kTaps * kTaps) taps[threadIdx.x] = weights[threadIdx.x];
  __syncthreads();
  if (x >= w || y >= h) return;
  const float* corner = image + static_cast<std::int64_t>(y) * pw + x;
  float sum = 0.0f;
#pragma unroll
  for (int dy = 0; dy < kTaps; ++dy) {
#pragma unroll
    for (int dx = 0; dx < kTaps; ++dx) {
      sum += taps[dy * kTaps + dx] * corner[static_cast<std::int64_t>(dy) * pw + dx];
    }
  }
  out[static_cast<std::int64_t>(y) * w + x] = sum;
}

}  // namespace

extern "C" int filter_image(const float* image, const float* weights, float* out, std::int64_t h,
                            std::int64_t w, std::int64_t ph, std::int64_t pw, void* stream) {
  const dim3 grid((w + kWidth - 1) / kWidth, (h + kHeight - 1) / kHeight);
  filter_pixels<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      image, weights, out, static_cast<int>(h), static_cast<int>(w), static_cast<int>(ph),
      static_cast<int>(pw));
  return static_cast<int>(cudaGetLastError());
}
