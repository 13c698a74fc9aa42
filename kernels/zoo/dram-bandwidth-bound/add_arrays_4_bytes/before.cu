// kernel: add_arrays_4_bytes/before/cuda
// form: coalesced accesses of 4 bytes, 4 in flight for each array
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
      static_cast<std::int64_t>(blockIdx.x) * kThreads * kItems + threadIdx.x;
  float u[kItems], v[kItems];
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    u[k] = a[first + k * kThreads];
    v[k] = b[first + k * kThreads];
  }
#pragma unroll
  for (int k = 0; k < kItems; ++k) c[first + k * kThreads] = u[k] + v[k];
}

}  // namespace

extern "C" int add_arrays(const float* a, const float* b, float* c,
                          std::int64_t n, void* stream) {
  const unsigned blocks = static_cast<unsigned>(n / (kThreads * kItems));
  update<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(a, b, c);
  return static_cast<int>(cudaGetLastError());
}
