// kernel: dot_product_one_sum/before/cuda
// flaw: every thread adds to the same address
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kItems = 16;

__global__ void __launch_bounds__(kThreads)
    dot_partials(const float* __restrict__ x, const float* __restrict__ y,
                 double* __restrict__ total, std::int64_t n) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kThreads * kItems;
  double sum = 0.0;
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    const std::int64_t i = first + k * kThreads + threadIdx.x;
    if (i < n) sum += static_cast<double>(x[i]) * y[i];
  }
  atomicAdd(total, sum);
}

}  // namespace

extern "C" int dot(const float* x, const float* y, const double* start, double* total,
                   std::int64_t n, void* stream) {
  (void)start;
  constexpr int kPerBlock = kThreads * kItems;
  const int blocks = static_cast<int>((n + kPerBlock - 1) / kPerBlock);
  dot_partials<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(x, y, total, n);
  return static_cast<int>(cudaGetLastError());
}
