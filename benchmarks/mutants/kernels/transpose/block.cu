#include <cuda_runtime.h>
#include <cstdint>

__global__ void transpose_kernel(const float* x, float* y, std::int64_t rows, std::int64_t cols) {
  __shared__ float tile[16][17];
  const std::int64_t from_row = blockIdx.y * 16 + threadIdx.y;
  const std::int64_t from_col = blockIdx.x * 16 + threadIdx.x;
  if (from_row < rows && from_col < cols) {
    tile[threadIdx.y][threadIdx.x] = x[from_row * cols + from_col];
  }
  __syncthreads();
  const std::int64_t to_row = blockIdx.x * 16 + threadIdx.y;
  const std::int64_t to_col = blockIdx.y * 16 + threadIdx.x;
  if (to_row < cols && to_col < rows) {
    y[to_row * rows + to_col] = tile[threadIdx.x][threadIdx.y];
  }
}

extern "C" int transpose(const float* x, float* y, std::int64_t rows, std::int64_t cols,
                         void* stream) {
  const dim3 blocks((cols + 15) / 16, (rows + 15) / 16);
  transpose_kernel<<<blocks, dim3(16, 16), 0, static_cast<cudaStream_t>(stream)>>>(x, y, rows, cols);
  return cudaGetLastError();
}
