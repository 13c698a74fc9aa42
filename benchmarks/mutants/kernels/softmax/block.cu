#include <cuda_runtime.h>
#include <cstdint>

__global__ void softmax_kernel(const float* x, float* y, std::int64_t cols) {
  __shared__ float shared[128];
  const float* in = x + blockIdx.x * cols;
  float* out = y + blockIdx.x * cols;
  float top = -INFINITY;
  for (std::int64_t col = threadIdx.x; col < cols; col += 128) {
    top = fmaxf(top, in[col]);
  }
  shared[threadIdx.x] = top;
  __syncthreads();
  for (int half = 64; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      shared[threadIdx.x] = fmaxf(shared[threadIdx.x], shared[threadIdx.x + half]);
    }
    __syncthreads();
  }
  top = shared[0];
  __syncthreads();
  float sum = 0.0f;
  for (std::int64_t col = threadIdx.x; col < cols; col += 128) {
    sum += expf(in[col] - top);
  }
  shared[threadIdx.x] = sum;
  __syncthreads();
  for (int half = 64; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      shared[threadIdx.x] += shared[threadIdx.x + half];
    }
    __syncthreads();
  }
  const float scale = 1.0f / shared[0];
  for (std::int64_t col = threadIdx.x; col < cols; col += 128) {
    out[col] = expf(in[col] - top) * scale;
  }
}

extern "C" int softmax(const float* x, float* y, std::int64_t rows, std::int64_t cols, void* stream) {
  softmax_kernel<<<rows, 128, 0, static_cast<cudaStream_t>(stream)>>>(x, y, cols);
  return cudaGetLastError();
}
