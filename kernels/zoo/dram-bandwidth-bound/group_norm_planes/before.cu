// kernel: group_norm_planes/before/cuda
// flaw: the mean and the variance each sweep the group, which no cache holds until the next sweep
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;
constexpr int kGroups = 32;
constexpr float kEpsilon = 1e-5f;

__device__ float block_sum(float value, float* partial) {
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, offset);
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  float total = 0.0f;
  for (int w = 0; w < kWarps; ++w) total += partial[w];
  return total;
}

__global__ void __launch_bounds__(kThreads)
    group_norm(const float* __restrict__ in, const float* __restrict__ gamma,
               const float* __restrict__ beta, float* __restrict__ out, int channels, int pixels) {
  __shared__ float partial[kWarps];
  const int channels_per_group = channels / kGroups;
  const int size = channels_per_group * pixels;
  const int first_channel = static_cast<int>(blockIdx.x % kGroups) * channels_per_group;
  const float* x = in + static_cast<std::int64_t>(blockIdx.x) * size;
  float* y = out + static_cast<std::int64_t>(blockIdx.x) * size;

  float sum = 0.0f;
  for (int i = threadIdx.x; i < size; i += kThreads) sum += x[i];
  const float mean = block_sum(sum, partial) / size;

  float squares = 0.0f;
  for (int i = threadIdx.x; i < size; i += kThreads) {
    const float d = x[i] - mean;
    squares += d * d;
  }
  const float variance = block_sum(squares, partial) / size;
  const float scale = rsqrtf(variance + kEpsilon);

  for (int c = 0; c < channels_per_group; ++c) {
    const float a = scale * gamma[first_channel + c];
    const float b = beta[first_channel + c] - mean * a;
    for (int i = threadIdx.x; i < pixels; i += kThreads) {
      y[c * pixels + i] = x[c * pixels + i] * a + b;
    }
  }
}

}  // namespace

extern "C" int group_norm_planes(const float* in, const float* gamma, const float* beta, float* out,
                                 std::int64_t n, std::int64_t channels, std::int64_t pixels,
                                 void* stream) {
  group_norm<<<static_cast<unsigned>(n * kGroups), kThreads, 0,
               static_cast<cudaStream_t>(stream)>>>(in, gamma, beta, out,
                                                    static_cast<int>(channels),
                                                    static_cast<int>(pixels));
  return static_cast<int>(cudaGetLastError());
}
