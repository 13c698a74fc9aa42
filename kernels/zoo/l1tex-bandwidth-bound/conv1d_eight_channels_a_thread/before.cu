// kernel: conv1d_eight_channels_a_thread/before/cuda
// flaw: every warp reads each filter weight from global memory, one by one
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kInputs = 48;
constexpr int kTaps = 9;
constexpr int kOutputs = 8;

__global__ void __launch_bounds__(kThreads)
    convolve(const float* __restrict__ x, const float* __restrict__ filter, float* __restrict__ y,
             int channels, int width) {
  const int first = blockIdx.y * kOutputs;
  const int position = blockIdx.x * kThreads + threadIdx.x;
  if (position >= width) return;
  const float* line = x + static_cast<std::int64_t>(blockIdx.z) * kInputs * width;
  float sum[kOutputs] = {};
  for (int in = 0; in < kInputs; ++in, line += width) {
#pragma unroll
    for (int tap = 0; tap < kTaps; ++tap) {
      const int source = position + tap - kTaps / 2;
      const float value = source >= 0 && source < width ? line[source] : 0.0f;
#pragma unroll
      for (int out = 0; out < kOutputs; ++out) {
        sum[out] += filter[((first + out) * kInputs + in) * kTaps + tap] * value;
      }
    }
  }
  float* result =
      y + (static_cast<std::int64_t>(blockIdx.z) * channels + first) * width + position;
#pragma unroll
  for (int out = 0; out < kOutputs; ++out, result += width) *result = sum[out];
}

}  // namespace

extern "C" int conv1d(const float* x, const float* filter, float* y, std::int64_t batch,
                      std::int64_t channels, std::int64_t width, void* stream) {
  const dim3 grid(static_cast<unsigned>((width + kThreads - 1) / kThreads),
                  static_cast<unsigned>(channels / kOutputs), static_cast<unsigned>(batch));
  convolve<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      x, filter, y, static_cast<int>(channels), static_cast<int>(width));
  return static_cast<int>(cudaGetLastError());
}
