// kernel: roll3d/naive/cuda
// shapes: x (depth, rows, cols) float32 contiguous -> y of the same shape; axes >= 0, steps >= 0
// launch: grid ceil(depth * rows * cols / 256), block 256; one thread per element
// work: algorithm 8 B per element; here six or so divisions of 64 bits as well
// weakness: divisions by what the compiler does not know take most of the instructions
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;

struct Volume {
  std::int64_t depth, rows, cols;
};

__global__ void roll_by_division(const float* __restrict__ x, float* __restrict__ y, Volume size,
                                 Volume step) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= size.depth * size.rows * size.cols) return;
  const std::int64_t col = i % size.cols;
  const std::int64_t row = i / size.cols % size.rows;
  const std::int64_t slice = i / (size.rows * size.cols);
  const std::int64_t from_col = (col + size.cols - step.cols) % size.cols;
  const std::int64_t from_row = (row + size.rows - step.rows) % size.rows;
  const std::int64_t from_slice = (slice + size.depth - step.depth) % size.depth;
  y[i] = x[(from_slice * size.rows + from_row) * size.cols + from_col];
}

}  // namespace

extern "C" int roll3d(const float* x, std::int64_t down, std::int64_t along, std::int64_t across,
                      float* y, std::int64_t depth, std::int64_t rows, std::int64_t cols,
                      void* stream) {
  const std::int64_t count = depth * rows * cols;
  if (count == 0) return 0;
  const Volume step = {down % depth, along % rows, across % cols};
  const auto blocks = static_cast<unsigned>((count + kThreads - 1) / kThreads);
  roll_by_division<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      x, y, Volume{depth, rows, cols}, step);
  return static_cast<int>(cudaGetLastError());
}
