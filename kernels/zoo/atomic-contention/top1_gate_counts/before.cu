// kernel: top1_gate_counts/before/cuda
// flaw: every token adds to one of eight global counters
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kExperts = 8;

// A thread a token: the most likely of eight experts, its share, and the tokens of each expert.
__global__ void __launch_bounds__(kThreads)
    gate(const uint4* __restrict__ logits, float* __restrict__ shares, int* __restrict__ experts,
         int* __restrict__ counts, std::int64_t tokens) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < tokens) {
    const uint4 loaded = logits[i];
    const __half2* pairs = reinterpret_cast<const __half2*>(&loaded);
    float values[kExperts];
    float largest = -65504.0f;
    int best = 0;
#pragma unroll
    for (int e = 0; e < kExperts; ++e) {
      values[e] = __half2float(e % 2 == 0 ? __low2half(pairs[e / 2]) : __high2half(pairs[e / 2]));
      if (values[e] > largest) {
        largest = values[e];
        best = e;
      }
    }
    float sum = 0.0f;
#pragma unroll
    for (int e = 0; e < kExperts; ++e) sum += expf(values[e] - largest);
    shares[i] = 1.0f / sum;
    experts[i] = best;
    atomicAdd(&counts[best], 1);
  }
}

}  // namespace

extern "C" int gate_tokens(const __half* logits, const int* start, float* shares, int* experts,
                           int* counts, std::int64_t tokens, void* stream) {
  (void)start;
  const unsigned int blocks = static_cast<unsigned int>((tokens + kThreads - 1) / kThreads);
  gate<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      reinterpret_cast<const uint4*>(logits), shares, experts, counts, tokens);
  return static_cast<int>(cudaGetLastError());
}
