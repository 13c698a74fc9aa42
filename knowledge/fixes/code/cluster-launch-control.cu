// fix: cluster-launch-control
// arch: sm_100 sm_120
// source: cutlass-cluster-launch-control
#include <cuda/ptx>
#include <cuda_runtime.h>

// Tile t of the output: tiles take different times.
__device__ void compute_tile(const float* x, const int* length, float* y, int tile) {
  float sum = 0.0f;
  for (int i = threadIdx.x; i < length[tile]; i += blockDim.x) sum += x[i];
  atomicAdd(&y[tile], sum);
}

namespace before {

// A persistent grid: which tiles a block computes is fixed before the launch.
__global__ void compute(const float* x, const int* length, float* y, int tiles) {
  for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) compute_tile(x, length, y, tile);
}

void launch(const float* x, const int* length, float* y, int tiles, int blocks,
            cudaStream_t stream) {
  compute<<<blocks, 256, 0, stream>>>(x, length, y, tiles);
}

}  // namespace before

namespace after {

// One block for each tile; a block that ends a tile takes over one that has not started.
__global__ void compute(const float* x, const int* length, float* y) {
  namespace ptx = cuda::ptx;
  __shared__ uint4 response;
  __shared__ uint64_t barrier;
  if (threadIdx.x == 0) ptx::mbarrier_init(&barrier, 1);
  __syncthreads();
  int tile = blockIdx.x;
  for (int parity = 0;; parity ^= 1) {
    if (threadIdx.x == 0) {  // ask for the next tile while this one is computed
      ptx::fence_proxy_async_generic_sync_restrict(ptx::sem_acquire, ptx::space_cluster,
                                                   ptx::scope_cluster);
      ptx::clusterlaunchcontrol_try_cancel(&response, &barrier);
      ptx::mbarrier_arrive_expect_tx(ptx::sem_relaxed, ptx::scope_cta, ptx::space_shared, &barrier,
                                     sizeof(uint4));
    }
    compute_tile(x, length, y, tile);
    while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cta, &barrier, parity)) {
    }
    if (!ptx::clusterlaunchcontrol_query_cancel_is_canceled(response)) return;
    tile = ptx::clusterlaunchcontrol_query_cancel_get_first_ctaid_x<int>(response);
    ptx::fence_proxy_async_generic_sync_restrict(ptx::sem_release, ptx::space_shared,
                                                 ptx::scope_cluster);
    __syncthreads();  // every thread has read the response
  }
}

void launch(const float* x, const int* length, float* y, int tiles, cudaStream_t stream) {
  compute<<<tiles, 256, 0, stream>>>(x, length, y);
}

}  // namespace after
