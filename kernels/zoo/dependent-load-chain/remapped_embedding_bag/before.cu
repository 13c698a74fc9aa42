// kernel: remapped_embedding_bag/before/cuda
// flaw: the load of a row waits for its number, whose load waits for the id
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kBag = 16;
constexpr int kChannels = 32;

__global__ void __launch_bounds__(kThreads)
    sum_bags(const int* __restrict__ ids, const int* __restrict__ remap,
             const float* __restrict__ table, float* __restrict__ out, int bags) {
  const int lane = threadIdx.x % 32;
  const int bag = (blockIdx.x * kThreads + threadIdx.x) / 32;
  if (bag >= bags) return;
  const int* own = ids + bag * kBag;
  float sum = 0.f;
#pragma unroll 1
  for (int k = 0; k < kBag; ++k) {
    const int row = remap[own[k]];
    sum += table[row * kChannels + lane];
  }
  out[bag * kChannels + lane] = sum;
}

}  // namespace

extern "C" int embedding_bag(const int* ids, const int* remap, const float* table, float* out,
                             std::int64_t bags, void* stream) {
  const int blocks = static_cast<int>((bags * 32 + kThreads - 1) / kThreads);
  sum_bags<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(ids, remap, table, out,
                                                                     static_cast<int>(bags));
  return static_cast<int>(cudaGetLastError());
}
