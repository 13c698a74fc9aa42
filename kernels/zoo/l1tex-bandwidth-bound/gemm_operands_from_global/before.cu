// kernel: gemm_operands_from_global/before/cuda
// flaw: two global loads for each multiply-add
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kTile = 32;

__global__ void __launch_bounds__(kTile* kTile)
    multiply(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m,
             int n, int k) {
  const int row = blockIdx.y * kTile + threadIdx.y;
  const int column = blockIdx.x * kTile + threadIdx.x;
  if (row >= m || column >= n) return;
  const float* a_row = a + static_cast<std::int64_t>(row) * k;
  float sum = 0.0f;
  for (int p = 0; p < k; ++p) sum += a_row[p] * b[static_cast<std::int64_t>(p) * n + column];
  c[static_cast<std::int64_t>(row) * n + column] = sum;
}

}  // namespace

extern "C" int matrix_product(const float* a, const float* b, float* c, std::int64_t m,
                              std::int64_t n, std::int64_t k, void* stream) {
  const dim3 grid((n + kTile - 1) / kTile, (m + kTile - 1) / kTile);
  const dim3 block(kTile, kTile);
  multiply<<<grid, block, 0, static_cast<cudaStream_t>(stream)>>>(
      a, b, c, static_cast<int>(m), static_cast<int>(n), static_cast<int>(k));
  return static_cast<int>(cudaGetLastError());
}
