// kernel: embedding_thread_per_row/after/cuda
// change: 32 lanes instead of 1 for each row
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kLanes = 32;

__global__ void __launch_bounds__(kThreads)
    gather_rows(const int* __restrict__ ids, const float* __restrict__ table,
                float* __restrict__ rows, std::int64_t n, int dim) {
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const std::int64_t row = thread / kLanes;
  if (row >= n) return;
  const float* source = table + static_cast<std::int64_t>(ids[row]) * dim;
  float* target = rows + row * dim;
  for (int d = threadIdx.x % kLanes; d < dim; d += kLanes) target[d] = source[d];
}

}  // namespace

extern "C" int look_up(const int* ids, const float* table, float* rows, std::int64_t n,
                       std::int64_t dim, void* stream) {
  const int blocks = static_cast<int>((n * kLanes + kThreads - 1) / kThreads);
  gather_rows<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      ids, table, rows, n, static_cast<int>(dim));
  return static_cast<int>(cudaGetLastError());
}
