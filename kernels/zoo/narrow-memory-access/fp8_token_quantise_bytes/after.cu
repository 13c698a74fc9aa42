// kernel: fp8_token_quantise_bytes/after/cuda
// change: eight values for each access of a thread
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr float kLargest = 448.0f;
constexpr int kValues = 8;

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

union Halves {
  uint4 packed;
  __half value[kValues];
  __device__ Halves() {}
};

union Levels {
  uint2 packed;
  __nv_fp8_storage_t value[kValues];
  __device__ Levels() {}
};

__device__ __nv_fp8_storage_t to_level(__half value, float factor) {
  return __nv_cvt_float_to_fp8(__half2float(value) * factor, __NV_SATFINITE, __NV_E4M3);
}

// A block for each token; the width is a multiple of eight.
__global__ void __launch_bounds__(kThreads)
    quantise_tokens(const __half* __restrict__ x, __nv_fp8_e4m3* __restrict__ out,
                    float* __restrict__ scales, int width) {
  const __half* row = x + static_cast<std::int64_t>(blockIdx.x) * width;
  __nv_fp8_e4m3* levels = out + static_cast<std::int64_t>(blockIdx.x) * width;
  float largest = 0.0f;
  for (int i = kValues * threadIdx.x; i < width; i += kValues * kThreads) {
    Halves halves;
    halves.packed = *reinterpret_cast<const uint4*>(row + i);
#pragma unroll
    for (int k = 0; k < kValues; ++k) {
      largest = fmaxf(largest, fabsf(__half2float(halves.value[k])));
    }
  }
  const float scale = fmaxf(block_max(largest), 1e-10f) / kLargest;
  const float factor = 1.0f / scale;
  for (int i = kValues * threadIdx.x; i < width; i += kValues * kThreads) {
    Halves halves;
    Levels eight;
    halves.packed = *reinterpret_cast<const uint4*>(row + i);
#pragma unroll
    for (int k = 0; k < kValues; ++k) eight.value[k] = to_level(halves.value[k], factor);
    *reinterpret_cast<uint2*>(levels + i) = eight.packed;
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
