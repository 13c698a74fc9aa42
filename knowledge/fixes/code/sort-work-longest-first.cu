// fix: sort-work-longest-first
// arch: sm_80 sm_90a sm_100a
// source: kernelkb-judgement
#include <algorithm>
#include <numeric>
#include <vector>

#include <cuda_runtime.h>

// The sum of ragged row r, elements start[r] to start[r + 1] - 1, by one block of a warp.
__device__ void sum_row(const float* x, const int* start, float* out, int r) {
  float sum = 0.0f;
  for (int i = start[r] + threadIdx.x; i < start[r + 1]; i += 32) sum += x[i];
#pragma unroll
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  if (threadIdx.x == 0) out[r] = sum;
}

namespace before {

// Natural order: a long row that starts last keeps one SM busy alone. Grid of rows.
__global__ void row_sums(const float* x, const int* start, float* out) {
  sum_row(x, start, out, blockIdx.x);
}

}  // namespace before

namespace after {

// Blocks start in the order of their index, so the longest rows start first.
__global__ void row_sums(const float* x, const int* start, const int* order, float* out) {
  sum_row(x, start, out, order[blockIdx.x]);
}

// Rows by falling length; made once, then copied to the device.
std::vector<int> order_rows(const std::vector<int>& start) {
  std::vector<int> order(start.size() - 1);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    return start[a + 1] - start[a] > start[b + 1] - start[b];
  });
  return order;
}

}  // namespace after
