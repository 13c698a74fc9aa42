#include <cuda_runtime.h>
#include <cstdint>

__global__ void conv2d_kernel(const float* x, const float* weight, float* y, std::int64_t channels,
                              std::int64_t height, std::int64_t width) {
  __shared__ float tile[10][10];
  const std::int64_t top = blockIdx.y * 8;
  const std::int64_t left = blockIdx.x * 8;
  float sum = 0.0f;
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    for (int at = threadIdx.y * 8 + threadIdx.x; at < 100; at += 64) {
      const std::int64_t i = top + at / 10 - 1;
      const std::int64_t j = left + at % 10 - 1;
      const bool inside = i >= 0 && i < height && j >= 0 && j < width;
      tile[at / 10][at % 10] = inside ? x[(channel * height + i) * width + j] : 0.0f;
    }
    __syncthreads();
    const float* taps = weight + (blockIdx.z * channels + channel) * 9;
    for (int down = 0; down < 3; ++down) {
      for (int across = 0; across < 3; ++across) {
        sum += tile[threadIdx.y + down][threadIdx.x + across] * taps[down * 3 + across];
      }
    }
    __syncthreads();
  }
  const std::int64_t row = top + threadIdx.y;
  const std::int64_t col = left + threadIdx.x;
  if (row < height && col < width) {
    y[(blockIdx.z * height + row) * width + col] = sum;
  }
}

extern "C" int conv2d(const float* x, const float* weight, float* y, std::int64_t channels,
                      std::int64_t height, std::int64_t width, std::int64_t filters, void* stream) {
  const dim3 blocks((width + 7) / 8, (height + 7) / 8, filters);
  conv2d_kernel<<<blocks, dim3(8, 8), 0, static_cast<cudaStream_t>(stream)>>>(
      x, weight, y, channels, height, width);
  return cudaGetLastError();
}
