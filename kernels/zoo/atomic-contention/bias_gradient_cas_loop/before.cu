// kernel: bias_gradient_cas_loop/before/cuda
// flaw: many threads repeat a compare-and-swap on the same column until nobody else came between
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kRows = 64;

__device__ void add_atomically(double* target, double value) {
  auto* bits = reinterpret_cast<unsigned long long*>(target);
  unsigned long long old = *bits;
  unsigned long long expected;
  do {
    expected = old;
    old = atomicCAS(bits, expected, __double_as_longlong(value + __longlong_as_double(expected)));
  } while (old != expected);
}

__global__ void __launch_bounds__(kThreads)
    add_columns(const float* __restrict__ gradients, double* bias, int rows, int cols) {
  const int col = blockIdx.x * kThreads + threadIdx.x;
  if (col >= cols) return;
  const int first = blockIdx.y * kRows;
  const int end = min(first + kRows, rows);
  double sum = 0.0;
#pragma unroll 8
  for (int row = first; row < end; ++row) {
    sum += gradients[static_cast<std::int64_t>(row) * cols + col];
  }
  add_atomically(&bias[col], sum);
}

}  // namespace

extern "C" int sum_columns(const float* gradients, const double* start, double* bias,
                           std::int64_t rows, std::int64_t cols, void* stream) {
  (void)start;
  const dim3 grid(static_cast<unsigned>((cols + kThreads - 1) / kThreads),
                  static_cast<unsigned>((rows + kRows - 1) / kRows));
  add_columns<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      gradients, bias, static_cast<int>(rows), static_cast<int>(cols));
  return static_cast<int>(cudaGetLastError());
}
