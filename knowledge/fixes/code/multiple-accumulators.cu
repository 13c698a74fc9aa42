// fix: multiple-accumulators
// arch: sm_80 sm_90a sm_100a
// source: gpa
#include <cuda_runtime.h>

// The dot product of each thread's vector of kDim values with one code in shared memory.
constexpr int kDim = 64;  // blocks have 64 threads or more; value d of vector i at x[d * n + i]

namespace before {

// One chain: each FFMA waits four cycles for the one before.
__global__ void scores(const float* __restrict__ x, const float* __restrict__ code,
                       float* __restrict__ out, int n) {
  __shared__ float c[kDim];
  if (threadIdx.x < kDim) c[threadIdx.x] = code[threadIdx.x];
  __syncthreads();
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float sum = 0.0f;
#pragma unroll 8
  for (int d = 0; d < kDim; ++d) sum = fmaf(x[static_cast<size_t>(d) * n + i], c[d], sum);
  out[i] = sum;
}

}  // namespace before

namespace after {

// Four chains that do not wait for each other; the sum rounds differently.
__global__ void scores(const float* __restrict__ x, const float* __restrict__ code,
                       float* __restrict__ out, int n) {
  __shared__ float c[kDim];
  if (threadIdx.x < kDim) c[threadIdx.x] = code[threadIdx.x];
  __syncthreads();
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float sum[4] = {};
#pragma unroll 8
  for (int d = 0; d < kDim; ++d) {
    sum[d % 4] = fmaf(x[static_cast<size_t>(d) * n + i], c[d], sum[d % 4]);
  }
  out[i] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

}  // namespace after
