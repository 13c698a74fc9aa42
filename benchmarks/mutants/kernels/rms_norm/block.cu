#include <cuda_runtime.h>
#include <cstdint>

__global__ void rms_norm_kernel(const float* x, const float* weight, float* y, std::int64_t cols) {
  __shared__ float partial[4];
  const float* in = x + blockIdx.x * cols;
  float sum = 0.0f;
  for (std::int64_t col = threadIdx.x; col < cols; col += 128) {
    sum += in[col] * in[col];
  }
  for (int step = 16; step > 0; step /= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, step);
  }
  if (threadIdx.x % 32 == 0) {
    partial[threadIdx.x / 32] = sum;
  }
  __syncthreads();
  const float total = partial[0] + partial[1] + partial[2] + partial[3];
  const float scale = rsqrtf(total / cols + 1e-6f);
  for (std::int64_t col = threadIdx.x; col < cols; col += 128) {
    y[blockIdx.x * cols + col] = in[col] * scale * weight[col];
  }
}

extern "C" int rms_norm(const float* x, const float* weight, float* y, std::int64_t rows,
                        std::int64_t cols, void* stream) {
  rms_norm_kernel<<<rows, 128, 0, static_cast<cudaStream_t>(stream)>>>(x, weight, y, cols);
  return cudaGetLastError();
}
