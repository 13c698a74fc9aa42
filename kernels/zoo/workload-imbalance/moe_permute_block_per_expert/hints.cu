// kernel: moe_permute_block_per_expert/hints/cuda
// change: streaming stores
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;

// A block copies the rows of one expert; a row has width values of 16 bytes.
__global__ void __launch_bounds__(kThreads)
    copy_expert_rows(const uint4* __restrict__ x, const int* __restrict__ sources,
                     const int* __restrict__ starts, uint4* __restrict__ out, int width) {
  const int last = starts[blockIdx.x + 1];
  for (int slot = starts[blockIdx.x]; slot < last; ++slot) {
    const std::int64_t source = sources[slot];
    for (int i = threadIdx.x; i < width; i += kThreads) {
      __stcs(out + static_cast<std::int64_t>(slot) * width + i, x[source * width + i]);
    }
  }
}

}  // namespace

extern "C" int permute(const uint4* x, const int* sources, const int* starts, uint4* out,
                       std::int64_t experts, std::int64_t bounds, std::int64_t tokens,
                       std::int64_t slots, std::int64_t width, void* stream) {
  (void)tokens, (void)bounds, (void)slots;
  copy_expert_rows<<<static_cast<unsigned>(experts), kThreads, 0,
                     static_cast<cudaStream_t>(stream)>>>(x, sources, starts, out,
                                                          static_cast<int>(width));
  return static_cast<int>(cudaGetLastError());
}
