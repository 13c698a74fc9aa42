// kernel: row_total/naive/cuda
// shapes: x (rows, cols) float32 contiguous -> total (rows,) float32; rows >= 0, cols >= 0
// launch: grid rows, block 1024; one block per row
// shared: 4 KB; a partial sum for each thread
// work: 4 B and 1 FLOP per element, here as well
// weakness: few rows are few blocks, and most of the GPU stays empty
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 1024;

__global__ void total_block_per_row(const float* __restrict__ x, float* __restrict__ total,
                                    std::int64_t cols) {
  __shared__ float partial[kThreads];
  const float* row = x + blockIdx.x * cols;
  float sum = 0.0f;
  for (std::int64_t i = threadIdx.x; i < cols; i += kThreads) {
    sum += row[i];
  }
  partial[threadIdx.x] = sum;
  __syncthreads();

  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) total[blockIdx.x] = partial[0];
}

}  // namespace

extern "C" int row_total(const float* x, float* total, std::int64_t rows, std::int64_t cols,
                         void* stream) {
  if (rows == 0) return 0;
  total_block_per_row<<<static_cast<unsigned>(rows), kThreads, 0,
                        static_cast<cudaStream_t>(stream)>>>(x, total, cols);
  return static_cast<int>(cudaGetLastError());
}
