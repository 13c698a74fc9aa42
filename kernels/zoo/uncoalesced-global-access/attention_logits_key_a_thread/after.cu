// kernel: attention_logits_key_a_thread/after/cuda
// change: a warp works on one key instead of 32 keys
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr float kCap = 30.0f;

__global__ void __launch_bounds__(kThreads)
    multiply_rows(const float* __restrict__ keys, const float* __restrict__ query,
                  float* __restrict__ logits, int rows, int cols) {
  const int row = (blockIdx.x * kThreads + threadIdx.x) / 32;
  if (row >= rows) return;
  const int first = threadIdx.x % 32;
  constexpr int step = 32;
  const float* own = keys + static_cast<std::int64_t>(row) * cols;
  float sum = 0.0f;
  for (int c = first; c < cols; c += step) sum += own[c] * query[c];
  for (int s = 16; s > 0; s /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, s);
  if (first == 0) logits[row] = kCap * tanhf(sum / (kCap * sqrtf(static_cast<float>(cols))));
}

}  // namespace

extern "C" int attention_logits(const float* keys, const float* query, float* logits,
                                std::int64_t rows, std::int64_t cols, void* stream) {
  const unsigned blocks = static_cast<unsigned>((rows * 32 + kThreads - 1) / kThreads);
  multiply_rows<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      keys, query, logits, static_cast<int>(rows), static_cast<int>(cols));
  return static_cast<int>(cudaGetLastError());
}
