// fix: distributed-shared-memory
// arch: sm_90a sm_100a sm_120a
// source: hopper-tuning-guide
#include <cooperative_groups.h>
#include <cuda_runtime.h>

namespace cg = cooperative_groups;
constexpr int kThreads = 256;
constexpr int kCluster = 8;  // the largest size that needs no opt-in

// The sum of this thread's part of a row, added over the block; the result is in thread 0.
__device__ float sum_part(const float* row, int n, int part, int parts) {
  __shared__ float warps[kThreads / 32];
  float sum = 0.0f;
  for (int i = part * kThreads + threadIdx.x; i < n; i += parts * kThreads) sum += row[i];
  for (int lane = 16; lane > 0; lane /= 2) sum += __shfl_down_sync(~0u, sum, lane);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x < kThreads / 32) {
    sum = warps[threadIdx.x];
    for (int lane = kThreads / 64; lane > 0; lane /= 2)
      sum += __shfl_down_sync(0xffu, sum, lane);
  }
  return sum;
}

namespace before {

// sums must be zero before the launch, and the order of the additions changes.
__global__ void sum_rows(const float* x, float* sums, int n) {
  const float* row = x + size_t(blockIdx.y) * n;
  const float sum = sum_part(row, n, blockIdx.x, kCluster);
  if (threadIdx.x == 0) atomicAdd(&sums[blockIdx.y], sum);  // through L2
}

void launch(const float* x, float* sums, int rows, int n, cudaStream_t stream) {
  cudaMemsetAsync(sums, 0, rows * sizeof(float), stream);
  sum_rows<<<dim3(kCluster, rows), kThreads, 0, stream>>>(x, sums, n);
}

}  // namespace before

namespace after {

__global__ void __cluster_dims__(kCluster, 1, 1)
    sum_rows(const float* x, float* sums, int n) {
  __shared__ float total;
  cg::cluster_group cluster = cg::this_cluster();
  const float* row = x + size_t(blockIdx.y) * n;
  const float sum = sum_part(row, n, cluster.block_rank(), kCluster);
  if (threadIdx.x == 0) total = sum;
  cluster.sync();  // every total is written
  if (cluster.block_rank() == 0 && threadIdx.x == 0) {
    float all = 0.0f;
    for (int rank = 0; rank < kCluster; ++rank) all += *cluster.map_shared_rank(&total, rank);
    sums[blockIdx.y] = all;  // in a fixed order
  }
  cluster.sync();  // no block ends while its total may still be read
}

void launch(const float* x, float* sums, int rows, int n, cudaStream_t stream) {
  sum_rows<<<dim3(kCluster, rows), kThreads, 0, stream>>>(x, sums, n);
}

}  // namespace after
