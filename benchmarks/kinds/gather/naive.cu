// kernel: gather/naive/cuda
// shapes: x (n,) float32, offset (n,) int32 -> y (n,) float32; 0 <= n < 2^31, offset >= 0
// launch: grid ceil(n / 256), block 256; one thread per element
// work: algorithm 12 B per element; here a 32 B sector of x for each 4 B of it
// weakness: every lane reads another sector, so most of what is fetched is thrown away
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;

__global__ void gather_scattered(const float* __restrict__ x,
                                 const std::int32_t* __restrict__ offset, float* __restrict__ y,
                                 std::uint32_t n) {
  const std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  // Neither term reaches 2^31, so the sum does not wrap.
  if (i < n) y[i] = x[(i + static_cast<std::uint32_t>(offset[i])) % n];
}

}  // namespace

extern "C" int gather(const float* x, const std::int32_t* offset, float* y, std::int64_t n,
                      void* stream) {
  if (n == 0) return 0;
  const auto blocks = static_cast<unsigned>((n + kThreads - 1) / kThreads);
  gather_scattered<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      x, offset, y, static_cast<std::uint32_t>(n));
  return static_cast<int>(cudaGetLastError());
}
