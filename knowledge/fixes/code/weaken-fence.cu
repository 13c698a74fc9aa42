// fix: weaken-fence
// arch: sm_80 sm_90a sm_100a
// source: kernelkb-judgement
#include <cuda/atomic>
#include <cuda_runtime.h>

// Blocks of 32 threads.
__device__ float warp_sum(float v) {
#pragma unroll
  for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(~0u, v, d);
  return v;
}

__device__ float part(const float* x, int n) {
  float sum = 0.0f;
  for (int i = blockIdx.x * 32 + threadIdx.x; i < n; i += gridDim.x * 32) sum += x[i];
  return warp_sum(sum);
}

__device__ void add_partials(const float* partial, unsigned* ticket, float* out) {
  float sum = 0.0f;
  for (int b = threadIdx.x; b < gridDim.x; b += 32) sum += partial[b];
  sum = warp_sum(sum);
  if (threadIdx.x != 0) return;
  *out = sum;
  *ticket = 0;  // ready for the next launch
}

// The last of the blocks to finish adds the partial sums. *ticket is 0 at the start.
namespace before {

__global__ void sum(const float* x, float* partial, unsigned* ticket, float* out, int n) {
  const float own = part(x, n);
  unsigned drawn = 0;
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = own;
    __threadfence_system();  // waits until the host and other GPUs would see it, too
    drawn = atomicAdd(ticket, 1);
    __threadfence_system();
  }
  if (__shfl_sync(~0u, drawn, 0) != gridDim.x - 1) return;
  __syncwarp();
  add_partials(partial, ticket, out);
}

}  // namespace before

namespace after {

__global__ void sum(const float* x, float* partial, unsigned* ticket, float* out, int n) {
  const float own = part(x, n);
  unsigned drawn = 0;
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = own;
    cuda::atomic_ref<unsigned, cuda::thread_scope_device> counter(*ticket);
    drawn = counter.fetch_add(1, cuda::memory_order_acq_rel);  // this device is enough
  }
  if (__shfl_sync(~0u, drawn, 0) != gridDim.x - 1) return;
  __syncwarp();  // what lane 0 acquired, the other lanes see
  add_partials(partial, ticket, out);
}

}  // namespace after
