// kernel: logsumexp_shared_tree/after/cuda
// change: the tree in shared memory becomes shuffles within warps and one exchange between warps
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
  for (int step = 16; step > 0; step /= 2) {
    value = combine<kMax>(value, __shfl_xor_sync(0xffffffffu, value, step));
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
  __syncthreads();
  value = scratch[threadIdx.x % (kThreads / 32)];
  for (int step = kThreads / 64; step > 0; step /= 2) {
    value = combine<kMax>(value, __shfl_xor_sync(0xffffffffu, value, step));
  }
  return value;
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
