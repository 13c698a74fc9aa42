// kernel: fp8_token_quantise_bytes/before/cuda
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr float kLargest = 448.0f;

__device__ float block_max(float value) {
  __shared__ float values[kThreads / 32];
  for (int step = 16; step > 0; step /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, step));
  }
  if (threadIdx.x % 32 == 0) values[threadIdx.x / 32] = value;
  __syncthreads();
  for (int warp = 0; warp < kThreads / 32; ++warp) value = fmaxf(value, values[warp]);
  return value;
}

// A block for each token.
__global__ void __launch_bounds__(kThreads)
    quantise_tokens(const __half* __restrict__ x, __nv_fp8_e4m3* __restrict__ out,
                    float* __restrict__ scales, int width) {
  const __half* row = x + static_cast<std::int64_t>(blockIdx.x) * width;
  __nv_fp8_e4m3* levels = out + static_cast<std::int64_t>(blockIdx.x) * width;
  float largest = 0.0f;
  for (int i = threadIdx.x; i < width; i += kThreads) {
    largest = fmaxf(largest, fabsf(__half2float(row[i])));
  }
  const float scale = fmaxf(block_max(largest), 1e-10f) / kLargest;
  const float factor = 1.0f / scale;
  for (int i = threadIdx.x; i < width; i += kThreads) {
    levels[i] = __nv_fp8_e4m3(__half2float(row[i]) * factor);
  }
  if (threadIdx.x == 0) scales[blockIdx.x] = scale;
}

}  // namespace

extern "C" int quantise(const __half* x, __nv_fp8_e4m3* out, float* scales, std::int64_t tokens,
                        std::int64_t width, void* stream) {
  quantise_tokens<<<static_cast<unsigned>(tokens), kThreads, 0,
                    static_cast<cudaStream_t>(stream)>>>(x, out, scales, static_cast<int>(width));
  return static_cast<int>(cudaGetLastError());
}
