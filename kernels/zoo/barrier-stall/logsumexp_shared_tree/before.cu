// kernel: logsumexp_shared_tree/before/cuda
// flaw: each level of the tree reductions in shared memory ends at a barrier of the block
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 132 * 8;
constexpr float kLowest = -3.4e38f;

template <bool kMax>
__device__ float combine(float a, float b) {
  return kMax ? fmaxf(a, b) : a + b;
}

template <bool kMax>
__device__ float reduce_block(float value, float* scratch) {
  __syncthreads();
  scratch[threadIdx.x] = value;
  __syncthreads();
  for (int step = kThreads / 2; step > 0; step /= 2) {
    if (threadIdx.x < step) {
      scratch[threadIdx.x] = combine<kMax>(scratch[threadIdx.x], scratch[threadIdx.x + step]);
    }
    __syncthreads();
  }
  return scratch[0];
}

__global__ void __launch_bounds__(kThreads)
    logsumexp_rows(const float* __restrict__ x, float* __restrict__ y, int rows, int cols) {
  __shared__ float scratch[kThreads];
  for (int row = blockIdx.x; row < rows; row += kBlocks) {
    const float* line = x + static_cast<std::int64_t>(row) * cols;
    float largest = kLowest;
    for (int c = threadIdx.x; c < cols; c += kThreads) largest = fmaxf(largest, line[c]);
    largest = reduce_block<true>(largest, scratch);
    float sum = 0.f;
    for (int c = threadIdx.x; c < cols; c += kThreads) sum += expf(line[c] - largest);
    sum = reduce_block<false>(sum, scratch);
    if (threadIdx.x == 0) y[row] = largest + logf(sum);
  }
}

}  // namespace

extern "C" int logsumexp(const float* x, float* y, std::int64_t rows, std::int64_t cols,
                         void* stream) {
  logsumexp_rows<<<kBlocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      x, y, static_cast<int>(rows), static_cast<int>(cols));
  return static_cast<int>(cudaGetLastError());
}
