// kernel: tone_map_pow/before/cuda
// flaw: constants without a suffix turn the curve and its power into double arithmetic
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    map_tones(const float* __restrict__ radiance, float* __restrict__ display, int n) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= n) return;
  const float x = radiance[i];
  display[i] = pow(x * (2.51 * x + 0.03) / (x * (2.43 * x + 0.59) + 0.14), 1.0 / 2.2);
}

}  // namespace

extern "C" int tone_map(const float* radiance, float* display, std::int64_t n, void* stream) {
  const int blocks = static_cast<int>((n + kThreads - 1) / kThreads);
  map_tones<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(radiance, display,
                                                                        static_cast<int>(n));
  return static_cast<int>(cudaGetLastError());
}
