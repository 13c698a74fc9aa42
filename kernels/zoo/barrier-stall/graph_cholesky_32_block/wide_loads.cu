// kernel: graph_cholesky_32_block/wide-loads/cuda
// change: a quarter of the threads load four values each
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kEdge = 32;

__global__ void __launch_bounds__(kEdge* kEdge)
    factor_blocks(const float* __restrict__ weights, float* __restrict__ factors) {
  __shared__ float a[kEdge][kEdge + 1];
  const int row = threadIdx.y, column = threadIdx.x;
  const std::int64_t at =
      static_cast<std::int64_t>(blockIdx.x) * kEdge * kEdge + row * kEdge + column;
  if (column < kEdge / 4) {
    const float4 four = reinterpret_cast<const float4*>(weights)[at / 4 - column / 4 + column];
    a[row][4 * column] = four.x;
    a[row][4 * column + 1] = four.y;
    a[row][4 * column + 2] = four.z;
    a[row][4 * column + 3] = four.w;
  }
  __syncthreads();
  const float weight = row == column ? 0.0f : a[max(row, column)][min(row, column)];
  float degree = fabsf(weight);
  for (int step = 16; step > 0; step /= 2) degree += __shfl_xor_sync(0xffffffffu, degree, step);
  __syncthreads();
  a[row][column] = row == column ? 1.0f + degree : -weight;
  __syncthreads();
  for (int k = 0; k < kEdge; ++k) {
    if (row == k && column == k) a[k][k] = sqrtf(a[k][k]);
    __syncthreads();
    if (column == k && row > k) a[row][k] /= a[k][k];
    __syncthreads();
    if (column > k && row >= column) a[row][column] -= a[row][k] * a[column][k];
    __syncthreads();
  }
  factors[at] = column <= row ? a[row][column] : 0.0f;
}

}  // namespace

extern "C" int factor(const float* weights, float* factors, std::int64_t matrices, void* stream) {
  factor_blocks<<<static_cast<unsigned>(matrices), dim3(kEdge, kEdge), 0,
                  static_cast<cudaStream_t>(stream)>>>(weights, factors);
  return static_cast<int>(cudaGetLastError());
}
