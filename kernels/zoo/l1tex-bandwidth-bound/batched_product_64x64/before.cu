// kernel: batched_product_64x64/before/cuda
// flaw: each multiply-add needs two loads, since a thread computes a single output
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kOrder = 64;
constexpr int kSide = 16;

__global__ void __launch_bounds__(kSide * kSide)
    multiply_batch(const float* __restrict__ a, const float* __restrict__ b,
                   float* __restrict__ c) {
  const std::int64_t matrix = static_cast<std::int64_t>(blockIdx.x) * kOrder * kOrder;
  a += matrix;
  b += matrix;
  c += matrix;
  const int row = blockIdx.y * kSide + threadIdx.y;
  const int col = blockIdx.z * kSide + threadIdx.x;
  float sum = 0.0f;
  for (int k = 0; k < kOrder; ++k) {
    sum += a[row * kOrder + k] * b[k * kOrder + col];
  }
  c[row * kOrder + col] = sum;
}

}  // namespace

extern "C" int batched_product(const float* a, const float* b, float* c, std::int64_t batch,
                               void* stream) {
  const dim3 grid(static_cast<unsigned>(batch), kOrder / kSide, kOrder / kSide);
  const dim3 block(kSide, kSide);
  multiply_batch<<<grid, block, 0, static_cast<cudaStream_t>(stream)>>>(a, b, c);
  return static_cast<int>(cudaGetLastError());
}
