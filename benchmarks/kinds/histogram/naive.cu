// kernel: histogram/naive/cuda
// shapes: labels (n,) int32, 0 to 63 -> counts (64,) int32; 0 <= n < 2^31
// launch: grid ceil(n / 256), block 256; one thread per label
// work: algorithm 4 B per label; here one global atomic per label as well
// weakness: all threads add to the same 64 counters, which L2 does one after another
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kBins = 64;

__global__ void histogram_global_atomics(const std::int32_t* __restrict__ labels,
                                         std::int32_t* __restrict__ counts, std::int64_t n) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&counts[labels[i]], 1);
}

}  // namespace

extern "C" int histogram(const std::int32_t* labels, std::int32_t* counts, std::int64_t n,
                         void* stream) {
  const auto queue = static_cast<cudaStream_t>(stream);
  const cudaError_t cleared = cudaMemsetAsync(counts, 0, kBins * sizeof(std::int32_t), queue);
  if (cleared != cudaSuccess || n == 0) return static_cast<int>(cleared);
  const auto blocks = static_cast<unsigned>((n + kThreads - 1) / kThreads);
  histogram_global_atomics<<<blocks, kThreads, 0, queue>>>(labels, counts, n);
  return static_cast<int>(cudaGetLastError());
}
