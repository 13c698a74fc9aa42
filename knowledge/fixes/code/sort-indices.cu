// fix: sort-indices
// arch: sm_80 sm_90a sm_100a
// source: kernelkb-judgement
#include <cub/device/device_radix_sort.cuh>
#include <cuda_runtime.h>

// Adds weight[i] * table[index[i]] over all i; the order of the terms is free.
__global__ void gather_sum(const float* __restrict__ table, const int* __restrict__ index,
                           const float* __restrict__ weight, float* total, int n) {
  const int stride = gridDim.x * blockDim.x;
  float sum = 0.0f;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    sum = fmaf(weight[i], table[index[i]], sum);
  }
#pragma unroll
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  if (threadIdx.x % 32 == 0) atomicAdd(total, sum);
}

namespace before {

void run(const float* table, const int* index, const float* weight, float* total, int n,
         int passes, cudaStream_t stream) {
  for (int p = 0; p < passes; ++p) {  // 32 lanes touch 32 random sectors in every pass
    gather_sum<<<1024, 256, 0, stream>>>(table, index, weight, total, n);
  }
}

}  // namespace before

namespace after {

// sorted_index and sorted_weight are buffers of n elements.
cudaError_t run(const float* table, const int* index, const float* weight, int* sorted_index,
                float* sorted_weight, float* total, int n, int passes, cudaStream_t stream) {
  void* temp = nullptr;
  size_t bytes = 0;
  cub::DeviceRadixSort::SortPairs(nullptr, bytes, index, sorted_index, weight, sorted_weight, n,
                                  0, 32, stream);
  cudaError_t error = cudaMallocAsync(&temp, bytes, stream);
  if (error != cudaSuccess) return error;
  cub::DeviceRadixSort::SortPairs(temp, bytes, index, sorted_index, weight, sorted_weight, n, 0,
                                  32, stream);
  cudaFreeAsync(temp, stream);
  for (int p = 0; p < passes; ++p) {  // neighbouring lanes share sectors, pages and L2 lines
    gather_sum<<<1024, 256, 0, stream>>>(table, sorted_index, sorted_weight, total, n);
  }
  return cudaGetLastError();
}

}  // namespace after
