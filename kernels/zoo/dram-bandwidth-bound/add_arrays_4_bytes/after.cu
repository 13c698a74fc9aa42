// kernel: add_arrays_4_bytes/after/cuda
// change: 16 bytes for each access instead of 4; each thread still has 4 elements
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kItems = 4;

// n is a multiple of 1024.
__global__ void __launch_bounds__(kThreads)
    update(const float* __restrict__ a, const float* __restrict__ b,
           float* __restrict__ c) {
  const std::int64_t first =
      (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kItems;
  const float4 u = *reinterpret_cast<const float4*>(a + first);
  const float4 v = *reinterpret_cast<const float4*>(b + first);
  *reinterpret_cast<float4*>(c + first) =
      make_float4(u.x + v.x, u.y + v.y, u.z + v.z, u.w + v.w);
}

}  // namespace

extern "C" int add_arrays(const float* a, const float* b, float* c,
                          std::int64_t n, void* stream) {
  const unsigned blocks = static_cast<unsigned>(n / (kThreads * kItems));
  update<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(a, b, c);
  return static_cast<int>(cudaGetLastError());
}
