// kernel: fir_circular_delay_line/before/cuda
// computes: an FIR filter along the time of each channel
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 128;
constexpr unsigned kTaps = 32;

__global__ void __launch_bounds__(kThreads, 4)
    filter_channels(const float* __restrict__ signal, const float* __restrict__ taps,
                    float* __restrict__ filtered, int time, int channels) {
  const int channel = blockIdx.x * kThreads + threadIdx.x;
  if (channel >= channels) return;
  float tap[kTaps], delay[kTaps];
#pragma unroll
  for (unsigned k = 0; k < kTaps; ++k) {
    tap[k] = taps[k];
    delay[k] = 0.0f;
  }
  unsigned head = 0;
  for (int t = 0; t < time; ++t) {
    const std::int64_t at = static_cast<std::int64_t>(t) * channels + channel;
    delay[head] = signal[at];
    float sum = 0.0f;
#pragma unroll
    for (unsigned k = 0; k < kTaps; ++k) sum += tap[k] * delay[(head - k) % kTaps];
    filtered[at] = sum;
    head = (head + 1) % kTaps;
  }
}

}  // namespace

extern "C" int filter_signals(const float* signal, const float* taps, float* filtered,
                              std::int64_t time, std::int64_t channels, void* stream) {
  const int blocks = static_cast<int>((channels + kThreads - 1) / kThreads);
  filter_channels<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      signal, taps, filtered, static_cast<int>(time), static_cast<int>(channels));
  return static_cast<int>(cudaGetLastError());
}
