// kernel: embedding_gradient_few_rows/before/cuda
// flaw: every gradient is added to one of 64 rows in global memory
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kRows = 64;
constexpr int kColumns = 128;
constexpr int kBlocks = 132 * 6;
constexpr int kBatch = 8;

__global__ void __launch_bounds__(kColumns)
    scatter_add(const int* __restrict__ ids, const float* __restrict__ gradients,
                float* __restrict__ table, int n) {
  const int column = threadIdx.x;
  for (int first = blockIdx.x * kBatch; first < n; first += kBlocks * kBatch) {
    float gradient[kBatch];
    int id[kBatch];
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      const int row = min(first + k, n - 1);
      id[k] = ids[row];
      gradient[k] = gradients[static_cast<std::int64_t>(row) * kColumns + column];
    }
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      if (first + k < n) atomicAdd(&table[id[k] * kColumns + column], gradient[k]);
    }
  }
}

}  // namespace

extern "C" int add_gradients(const int* ids, const float* gradients, const float* start,
                             float* table, std::int64_t n, void* stream) {
  (void)start;
  static_assert(kRows * kColumns * sizeof(float) <= 48 * 1024);
  scatter_add<<<kBlocks, kColumns, 0, static_cast<cudaStream_t>(stream)>>>(
      ids, gradients, table, static_cast<int>(n));
  return static_cast<int>(cudaGetLastError());
}
