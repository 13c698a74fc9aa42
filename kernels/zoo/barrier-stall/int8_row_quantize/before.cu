// kernel: int8_row_quantize/before/cuda
// flaw: the maximum of a row is a tree in shared memory with a barrier after each of ten steps
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 1024;
constexpr float kSmallest = 1.0e-8f;

__device__ float block_max(float value) {
  __shared__ float values[kThreads];
  values[threadIdx.x] = value;
  __syncthreads();
  for (int count = kThreads / 2; count > 0; count /= 2) {
    if (threadIdx.x < count) {
      values[threadIdx.x] = fmaxf(values[threadIdx.x], values[threadIdx.x + count]);
    }
    __syncthreads();
  }
  return values[0];
}

__global__ void __launch_bounds__(kThreads)
    quantize_rows(const __half* __restrict__ input, std::int8_t* __restrict__ output,
                  float* __restrict__ scale, int cols) {
  const std::int64_t start = static_cast<std::int64_t>(blockIdx.x) * cols;
  float largest = 0.0f;
  for (int j = threadIdx.x; j < cols; j += kThreads) {
    largest = fmaxf(largest, fabsf(__half2float(input[start + j])));
  }
  largest = fmaxf(block_max(largest), kSmallest);
  for (int j = threadIdx.x; j < cols; j += kThreads) {
    // 127 times a half is exact, so that the quotient is rounded only once before the last step.
    const float quotient = 127.0f * __half2float(input[start + j]) / largest;
    output[start + j] = static_cast<std::int8_t>(__float2int_rn(quotient));
  }
  if (threadIdx.x == 0) scale[blockIdx.x] = largest / 127.0f;
}

}  // namespace

extern "C" int quantize(const __half* input, std::int8_t* output, float* scale, std::int64_t rows,
                        std::int64_t cols, void* stream) {
  quantize_rows<<<static_cast<unsigned>(rows), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      input, output, scale, static_cast<int>(cols));
  return static_cast<int>(cudaGetLastError());
}
