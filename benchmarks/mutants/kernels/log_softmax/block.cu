#include <cuda_runtime.h>
#include <cstdint>

__global__ void log_softmax_kernel(const float* x, float* y, std::int64_t cols) {
  const float* in = x + blockIdx.x * cols;
  float* out = y + blockIdx.x * cols;
  float top = -INFINITY;
  for (std::int64_t col = threadIdx.x; col < cols; col += 32) {
    top = fmaxf(top, in[col]);
  }
  for (int step = 16; step > 0; step /= 2) {
    top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, step));
  }
  float sum = 0.0f;
  for (std::int64_t col = threadIdx.x; col < cols; col += 32) {
    sum += expf(in[col] - top);
  }
  for (int step = 16; step > 0; step /= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, step);
  }
  const float shift = top + logf(sum);
  for (std::int64_t col = threadIdx.x; col < cols; col += 32) {
    out[col] = in[col] - shift;
  }
}

extern "C" int log_softmax(const float* x, float* y, std::int64_t rows, std::int64_t cols,
                           void* stream) {
  log_softmax_kernel<<<rows, 32, 0, static_cast<cudaStream_t>(stream)>>>(x, y, cols);
  return cudaGetLastError();
}
