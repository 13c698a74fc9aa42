// kernel: point_distances_one_query/before/cuda
// flaw: the points, which L2 cannot hold, are read once for each query
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kDims = 32;
constexpr int kQueries = 1;

__global__ void __launch_bounds__(kThreads)
    compare_points(const float* __restrict__ points, const float* __restrict__ queries,
                   float* __restrict__ distances, int q, std::int64_t n) {
  __shared__ __align__(16) float own[kQueries][kDims];
  const int first_query = blockIdx.y * kQueries;
  for (int i = threadIdx.x; i < kQueries * kDims; i += kThreads) {
    const int query = first_query + i / kDims;
    own[i / kDims][i % kDims] = query < q ? queries[query * kDims + i % kDims] : 0.0f;
  }
  __syncthreads();
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  float point[kDims];
#pragma unroll
  for (int d = 0; d < kDims; ++d) point[d] = points[d * n + i];
  for (int j = 0; j < kQueries && first_query + j < q; ++j) {
    float sum = 0.0f;
#pragma unroll
    for (int d = 0; d < kDims; ++d) {
      const float difference = own[j][d] - point[d];
      sum += difference * difference;
    }
    distances[(first_query + j) * n + i] = sum;
  }
}

}  // namespace

extern "C" int squared_distances(const float* points, const float* queries, float* distances,
                                 std::int64_t q, std::int64_t n, void* stream) {
  const dim3 grid((n + kThreads - 1) / kThreads, (q + kQueries - 1) / kQueries);
  compare_points<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      points, queries, distances, static_cast<int>(q), n);
  return static_cast<int>(cudaGetLastError());
}
