// kernel: transpose/naive/cuda
// shapes: x (rows, cols) float32 contiguous -> y (cols, rows) float32; axes >= 0, rows < 65536
// launch: grid (ceil(cols / 256), rows), block 256; one thread per element
// work: algorithm 8 B per element; here a 32 B sector for each 4 B that a lane stores
// weakness: lanes store a row apart, 32 sectors for each request
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;

__global__ void transpose_scattered_stores(const float* __restrict__ x, float* __restrict__ y,
                                           std::int64_t rows, std::int64_t cols) {
  const std::int64_t row = blockIdx.y;
  const std::int64_t col = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (col < cols) y[col * rows + row] = x[row * cols + col];
}

}  // namespace

extern "C" int transpose(const float* x, float* y, std::int64_t rows, std::int64_t cols,
                         void* stream) {
  if (rows == 0 || cols == 0) return 0;
  const dim3 grid(static_cast<unsigned>((cols + kThreads - 1) / kThreads),
                  static_cast<unsigned>(rows));
  transpose_scattered_stores<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(x, y, rows,
                                                                                      cols);
  return static_cast<int>(cudaGetLastError());
}
