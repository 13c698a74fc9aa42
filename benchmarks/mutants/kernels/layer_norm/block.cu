#include <cuda_runtime.h>
#include <cstdint>

__device__ float block_sum(float value, float* shared) {
  __syncthreads();
  shared[threadIdx.x] = value;
  __syncthreads();
  for (int half = 64; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      shared[threadIdx.x] += shared[threadIdx.x + half];
    }
    __syncthreads();
  }
  return shared[0];
}

__global__ void layer_norm_kernel(const float* x, const float* weight, const float* bias, float* y,
                                  std::int64_t cols) {
  __shared__ float shared[128];
  const float* in = x + blockIdx.x * cols;
  float sum = 0.0f;
  for (std::int64_t col = threadIdx.x; col < cols; col += 128) {
    sum += in[col];
  }
  const float mean = block_sum(sum, shared) / cols;
  float squares = 0.0f;
  for (std::int64_t col = threadIdx.x; col < cols; col += 128) {
    const float off = in[col] - mean;
    squares += off * off;
  }
  const float scale = rsqrtf(block_sum(squares, shared) / cols + 1e-5f);
  for (std::int64_t col = threadIdx.x; col < cols; col += 128) {
    y[blockIdx.x * cols + col] = (in[col] - mean) * scale * weight[col] + bias[col];
  }
}

extern "C" int layer_norm(const float* x, const float* weight, const float* bias, float* y,
                          std::int64_t rows, std::int64_t cols, void* stream) {
  layer_norm_kernel<<<rows, 128, 0, static_cast<cudaStream_t>(stream)>>>(x, weight, bias, y, cols);
  return cudaGetLastError();
}
