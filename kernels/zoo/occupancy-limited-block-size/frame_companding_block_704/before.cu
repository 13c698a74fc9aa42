// kernel: frame_companding_block_704/before/cuda
// flaw: blocks of 22 warps: the two that fit an SM leave 20 of 64 warp slots empty
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 704;

__global__ void __launch_bounds__(kThreads)
    compand_pixels(const float* __restrict__ pixels, float* __restrict__ out, int n) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i < n) out[i] = sqrtf(255.f * pixels[i]);
}

}  // namespace

extern "C" int compand(const float* pixels, float* out, std::int64_t n, void* stream) {
  const int blocks = static_cast<int>((n + kThreads - 1) / kThreads);
  compand_pixels<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(pixels, out,
                                                                            static_cast<int>(n));
  return static_cast<int>(cudaGetLastError());
}
