// kernel: exceedance_counts_reread/after/cuda
// change: 8 loads of 16 bytes in flight for each thread instead of 4
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kChunk = 65536;
constexpr int kUnroll = 8;

__global__ void __launch_bounds__(kThreads)
    count_chunk(const float4* __restrict__ x, const float* __restrict__ levels,
                int* __restrict__ counts) {
  __shared__ int of_warp[kThreads / 32];
  const float4* chunk = x + static_cast<std::int64_t>(blockIdx.x) * (kChunk / 4);
  const float level = levels[blockIdx.y];
  int count = 0;
  for (int start = threadIdx.x; start < kChunk / 4; start += kUnroll * kThreads) {
    float4 v[kUnroll];
#pragma unroll
    for (int k = 0; k < kUnroll; ++k) v[k] = chunk[start + k * kThreads];
#pragma unroll
    for (int k = 0; k < kUnroll; ++k) {
      count += (v[k].x > level) + (v[k].y > level) + (v[k].z > level) + (v[k].w > level);
    }
  }
  count = __reduce_add_sync(0xffffffffu, count);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = count;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < kThreads / 32; ++w) count += of_warp[w];
    counts[static_cast<std::int64_t>(blockIdx.y) * gridDim.x + blockIdx.x] = count;
  }
}

}  // namespace

extern "C" int count_above(const float* x, const float* levels, int* counts,
                           std::int64_t thresholds, std::int64_t chunks, void* stream) {
  const dim3 grid(chunks, thresholds);
  count_chunk<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      reinterpret_cast<const float4*>(x), levels, counts);
  return static_cast<int>(cudaGetLastError());
}
