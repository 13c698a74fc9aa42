// kernel: top32_of_vocabulary/before/cuda
// flaw: every round scans the whole row again although one candidate changed
#include <cuda_runtime.h>

#include <climits>
#include <cmath>
#include <cstdint>

namespace {

constexpr int kThreads = 1024;
constexpr int kWarps = kThreads / 32;
constexpr int kTop = 32;

struct Candidate {
  float value;
  int index;
};

__device__ bool ranks_before(const Candidate& a, const Candidate& b) {
  return a.value > b.value || (a.value == b.value && a.index < b.index);
}

__device__ Candidate best_of_warp(Candidate best) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    const Candidate other{__shfl_xor_sync(0xffffffffu, best.value, offset),
                          __shfl_xor_sync(0xffffffffu, best.index, offset)};
    if (ranks_before(other, best)) best = other;
  }
  return best;
}

__global__ void __launch_bounds__(kThreads)
    pick_largest(const float* __restrict__ logits, float* __restrict__ values,
                 int* __restrict__ indices, int vocab) {
  __shared__ Candidate s_best[kWarps];
  __shared__ Candidate s_taken;
  const float* row = logits + static_cast<std::int64_t>(blockIdx.x) * vocab;
  Candidate taken{INFINITY, -1};
  for (int k = 0; k < kTop; ++k) {
    Candidate best{-INFINITY, INT_MAX};
    for (int i = threadIdx.x; i < vocab; i += kThreads) {
      const Candidate each{row[i], i};
      if (ranks_before(taken, each) && ranks_before(each, best)) best = each;
    }
    const Candidate of_warp = best_of_warp(best);
    if (threadIdx.x % 32 == 0) s_best[threadIdx.x / 32] = of_warp;
    __syncthreads();
    if (threadIdx.x < 32) {
      const Candidate of_block = best_of_warp(s_best[threadIdx.x]);
      if (threadIdx.x == 0) {
        s_taken = of_block;
        values[static_cast<std::int64_t>(blockIdx.x) * kTop + k] = of_block.value;
        indices[static_cast<std::int64_t>(blockIdx.x) * kTop + k] = of_block.index;
      }
    }
    __syncthreads();
    taken = s_taken;
  }
}

}  // namespace

extern "C" int top32(const float* logits, float* values, int* indices, std::int64_t rows,
                     std::int64_t vocab, void* stream) {
  pick_largest<<<static_cast<unsigned>(rows), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      logits, values, indices, static_cast<int>(vocab));
  return static_cast<int>(cudaGetLastError());
}
