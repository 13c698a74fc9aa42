// fix: warp-aggregate-atomics
// arch: sm_80 sm_90a sm_100a
// source: gpuscout
#include <cuda_runtime.h>

// Copies the positive elements to the front of out, in any order; *count is 0 at the start.
namespace before {

// Up to 32 atomics of a warp on one address.
__global__ void keep_positive(const float* __restrict__ x, float* __restrict__ out, int* count,
                              int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && x[i] > 0.0f) out[atomicAdd(count, 1)] = x[i];
}

}  // namespace before

namespace after {

// One atomic per warp reserves a range; each lane's place is its rank. blockDim.x % 32 == 0.
__global__ void keep_positive(const float* __restrict__ x, float* __restrict__ out, int* count,
                              int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
  const float v = i < n ? x[i] : 0.0f;
  const unsigned kept = __ballot_sync(~0u, v > 0.0f);
  int first = 0;
  if (lane == 0 && kept != 0) first = atomicAdd(count, __popc(kept));
  first = __shfl_sync(~0u, first, 0);
  if (v > 0.0f) out[first + __popc(kept & ((1u << lane) - 1))] = v;
}

}  // namespace after
