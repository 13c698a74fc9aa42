// kernel: hadamard_rows_4096/before/cuda
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kCount = 4096;
constexpr int kThreads = 256;
constexpr int kOwn = 16;
constexpr float kScale = 1.0f / 64.0f;

// The four stages among a thread's 16 values.
__device__ __forceinline__ void transform(float (&value)[kOwn]) {
#pragma unroll
  for (int step = 1; step < kOwn; step *= 2) {
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      if (i & step) continue;
      const float low = value[i];
      const float high = value[i + step];
      value[i] = low + high;
      value[i + step] = low - high;
    }
  }
}

// A thread transforms 16 values, stride apart, in place.
__device__ __forceinline__ void transform_group(float* row, int first, int stride) {
  float value[kOwn];
#pragma unroll
  for (int i = 0; i < kOwn; ++i) value[i] = row[first + i * stride];
  transform(value);
#pragma unroll
  for (int i = 0; i < kOwn; ++i) row[first + i * stride] = value[i];
}

// A block transforms a row: stages 1 to 8, 16 to 128, and 256 to 2048.
__global__ void __launch_bounds__(kThreads)
    transform_row(const __half* __restrict__ x, __half* __restrict__ out) {
  __shared__ float row[kCount];
  const std::int64_t start = static_cast<std::int64_t>(blockIdx.x) * kCount;
  const int thread = threadIdx.x;
  const __half2* from = reinterpret_cast<const __half2*>(x + start);
  for (int i = thread; i < kCount / 2; i += kThreads) {
    const float2 pair = __half22float2(from[i]);
    row[2 * i] = pair.x;
    row[2 * i + 1] = pair.y;
  }
  __syncthreads();
  transform_group(row, thread * kOwn, 1);
  __syncthreads();
  transform_group(row, thread / 16 * 256 + thread % 16, 16);
  __syncthreads();
  transform_group(row, thread, 256);
  __syncthreads();
  __half2* to = reinterpret_cast<__half2*>(out + start);
  for (int i = thread; i < kCount / 2; i += kThreads) {
    to[i] = __floats2half2_rn(row[2 * i] * kScale, row[2 * i + 1] * kScale);
  }
}

}  // namespace

extern "C" int rotate_rows(const __half* x, __half* out, std::int64_t rows, void* stream) {
  transform_row<<<static_cast<unsigned>(rows), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      x, out);
  return static_cast<int>(cudaGetLastError());
}
