// kernel: beam_cache_reorder/before/cuda
// flaw: a thread works out its address to copy two bytes
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kBeams = 32;
using Chunk = __half;
constexpr int kPerChunk = sizeof(Chunk) / sizeof(__half);

__global__ void __launch_bounds__(kThreads)
    copy_parents(const Chunk* __restrict__ cache, const int* __restrict__ parents,
                 Chunk* __restrict__ reordered, std::int64_t total, std::int64_t size) {
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (index >= total) return;
  const std::int64_t offset = index % size;
  const std::int64_t row = index / size;
  const std::int64_t beam = row % kBeams;
  const std::int64_t layer = row / kBeams;
  reordered[index] = cache[(layer * kBeams + parents[beam]) * size + offset];
}

}  // namespace

extern "C" int reorder_cache(const void* cache, const int* parents, void* reordered,
                             std::int64_t layers, std::int64_t size, void* stream) {
  const std::int64_t chunks = size / kPerChunk;
  const std::int64_t total = layers * kBeams * chunks;
  const unsigned blocks = static_cast<unsigned>((total + kThreads - 1) / kThreads);
  copy_parents<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const Chunk*>(cache), parents, static_cast<Chunk*>(reordered), total, chunks);
  return static_cast<int>(cudaGetLastError());
}
