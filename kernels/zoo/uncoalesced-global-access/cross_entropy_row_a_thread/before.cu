// kernel: cross_entropy_row_a_thread/before/cuda
// flaw: neighbouring lanes read different rows, and there are few rows
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 128;

__global__ void __launch_bounds__(kThreads)
    compute_losses(const float* __restrict__ logits, const int* __restrict__ labels,
                   float* __restrict__ losses, int rows, int cols) {
  const int row = blockIdx.x * kThreads + threadIdx.x;
  if (row >= rows) return;
  constexpr int first = 0, step = 1;
  const float* from = logits + static_cast<std::int64_t>(row) * cols;
  float largest = -INFINITY;
  for (int c = first; c < cols; c += step) largest = fmaxf(largest, from[c]);
  float sum = 0.0f;
  for (int c = first; c < cols; c += step) sum += expf(from[c] - largest);
  losses[row] = logf(sum) + largest - from[labels[row]];
}

}  // namespace

extern "C" int cross_entropy(const float* logits, const int* labels, float* losses,
                             std::int64_t rows, std::int64_t cols, void* stream) {
  const unsigned blocks = static_cast<unsigned>((rows + kThreads - 1) / kThreads);
  compute_losses<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      logits, labels, losses, static_cast<int>(rows), static_cast<int>(cols));
  return static_cast<int>(cudaGetLastError());
}
