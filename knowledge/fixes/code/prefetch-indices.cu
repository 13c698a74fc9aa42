// fix: prefetch-indices
// arch: sm_80 sm_90a sm_100a
// source: gpa
#include <cuda_runtime.h>

// Each thread writes the sum of its part of table[index[0]] to table[index[n - 1]].
namespace before {

// Two latencies in a row: the index, then the value behind it.
__global__ void gather_sums(const float* __restrict__ table, const int* __restrict__ index,
                            float* __restrict__ partial, int n) {
  const int first = blockIdx.x * blockDim.x + threadIdx.x, stride = gridDim.x * blockDim.x;
  float sum = 0.0f;
  for (int i = first; i < n; i += stride) sum += table[index[i]];
  partial[first] = sum;
}

}  // namespace before

namespace after {

// The next index travels while the present value is on its way. n + stride < 2^31.
__global__ void gather_sums(const float* __restrict__ table, const int* __restrict__ index,
                            float* __restrict__ partial, int n) {
  const int first = blockIdx.x * blockDim.x + threadIdx.x, stride = gridDim.x * blockDim.x;
  float sum = 0.0f;
  int next = first < n ? index[first] : 0;
  for (int i = first; i < n; i += stride) {
    const int now = next;
    if (i + stride < n) next = index[i + stride];
    sum += table[now];
  }
  partial[first] = sum;
}

}  // namespace after
