// kernel: batched_product_64x64/after/cuda
// change: each thread computes 4 x 4 outputs, so that 8 loads serve 16 multiply-adds
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kOrder = 64;
constexpr int kSide = 16;
constexpr int kTile = 4;

__global__ void __launch_bounds__(kSide * kSide)
    multiply_batch(const float* __restrict__ a, const float* __restrict__ b,
                   float* __restrict__ c) {
  const std::int64_t matrix = static_cast<std::int64_t>(blockIdx.x) * kOrder * kOrder;
  a += matrix;
  b += matrix;
  c += matrix;
  const int row = threadIdx.y * kTile;
  const int col = threadIdx.x;
  float sum[kTile][kTile] = {};
  for (int k = 0; k < kOrder; ++k) {
    float left[kTile];
    float right[kTile];
#pragma unroll
    for (int i = 0; i < kTile; ++i) left[i] = a[(row + i) * kOrder + k];
#pragma unroll
    for (int j = 0; j < kTile; ++j) right[j] = b[k * kOrder + col + j * kSide];
#pragma unroll
    for (int i = 0; i < kTile; ++i) {
#pragma unroll
      for (int j = 0; j < kTile; ++j) sum[i][j] += left[i] * right[j];
    }
  }
#pragma unroll
  for (int i = 0; i < kTile; ++i) {
#pragma unroll
    for (int j = 0; j < kTile; ++j) c[(row + i) * kOrder + col + j * kSide] = sum[i][j];
  }
}

}  // namespace

extern "C" int batched_product(const float* a, const float* b, float* c, std::int64_t batch,
                               void* stream) {
  const dim3 grid(static_cast<unsigned>(batch));
  const dim3 block(kSide, kSide);
  multiply_batch<<<grid, block, 0, static_cast<cudaStream_t>(stream)>>>(a, b, c);
  return static_cast<int>(cudaGetLastError());
}
