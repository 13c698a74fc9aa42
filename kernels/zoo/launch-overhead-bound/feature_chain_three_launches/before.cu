// kernel: feature_chain_three_launches/before/cuda
// Each step of each head is a launch over n features.
#include <cstdint>

#include <cuda_runtime.h>

namespace {

constexpr int kThreads = 256;
constexpr int kHeads = 16;

__global__ void add_shift(float* result, const float* shift, int64_t n) {
  int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) result[i] += shift[i];
}

__global__ void apply_gelu(float* result, int64_t n) {
  int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float x = result[i];
  result[i] = 0.5f * x * (1.0f + erff(x * 0.70710678f));
}

__global__ void apply_gain(float* result, const float* gain, int64_t n) {
  int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) result[i] *= gain[i];
}

}  // namespace

extern "C" int feature_chain(const float* /*feature*/, const float* shift, const float* gain,
                             float* result, int64_t n, void* stream) {
  auto queue = static_cast<cudaStream_t>(stream);
  auto blocks = static_cast<unsigned>((n + kThreads - 1) / kThreads);
  for (int head = 0; head < kHeads; ++head) {
    float* row = result + head * n;
    add_shift<<<blocks, kThreads, 0, queue>>>(row, shift, n);
    apply_gelu<<<blocks, kThreads, 0, queue>>>(row, n);
    apply_gain<<<blocks, kThreads, 0, queue>>>(row, gain, n);
  }
  return static_cast<int>(cudaGetLastError());
}
