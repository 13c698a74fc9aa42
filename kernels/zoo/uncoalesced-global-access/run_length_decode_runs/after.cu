// kernel: run_length_decode_runs/after/cuda
// change: neighbouring threads write neighbouring places, whose runs they find by binary search
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kRuns = 64;
constexpr int kLength = 1024;
constexpr int kSegments = 4;  // of a block
constexpr int kThreads = kSegments * kRuns;

__global__ void __launch_bounds__(kThreads)
    decode_segments(const int* __restrict__ lengths, const int* __restrict__ values,
                    int* __restrict__ decoded, int segments) {
  __shared__ int ends[kSegments][kRuns], symbols[kSegments][kRuns];
  const int own = threadIdx.x / kRuns, run = threadIdx.x % kRuns, lane = threadIdx.x % 32;
  const int segment = blockIdx.x * kSegments + own;
  const bool is_real = segment < segments;
  const std::int64_t at = static_cast<std::int64_t>(segment) * kRuns + run;
  const int length = is_real ? lengths[at] + 1 : 0;
  int end = length;
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(0xffffffffu, end, step);
    if (lane >= step) end += other;
  }
  ends[own][run] = end;
  __syncthreads();
  if (run >= 32) end += ends[own][31];
  __syncthreads();
  ends[own][run] = end;
  symbols[own][run] = is_real ? values[at] : 0;
  __syncthreads();
  if (!is_real) return;

  int* out = decoded + static_cast<std::int64_t>(segment) * kLength;
  for (int place = run; place < kLength; place += kRuns) {
    int found = 0;
#pragma unroll
    for (int step = kRuns / 2; step > 0; step /= 2) {
      if (ends[own][found + step - 1] <= place) found += step;
    }
    out[place] = symbols[own][found];
  }
}

}  // namespace

extern "C" int decode_runs(const int* lengths, const int* values, int* decoded,
                           std::int64_t segments, void* stream) {
  const int blocks = static_cast<int>((segments + kSegments - 1) / kSegments);
  decode_segments<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      lengths, values, decoded, static_cast<int>(segments));
  return static_cast<int>(cudaGetLastError());
}
