// kernel: fft_radix4_pass/before/cuda
// computes: one radix-4 pass of a Fourier transform
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr double kPi = 3.14159265358979323846;

__device__ __forceinline__ float2 add(float2 a, float2 b) {
  return make_float2(a.x + b.x, a.y + b.y);
}

__device__ __forceinline__ float2 subtract(float2 a, float2 b) {
  return make_float2(a.x - b.x, a.y - b.y);
}

__device__ __forceinline__ float2 rotate(float2 value, int j, int k, int n) {
  const double angle = -2.0 * kPi * j * k / (4.0 * n);
  const float re = cos(angle), im = sin(angle);
  return make_float2(value.x * re - value.y * im, value.x * im + value.y * re);
}

__global__ void __launch_bounds__(kThreads)
    radix4_pass(const float2* __restrict__ x, float2* __restrict__ y, int n) {
  const int j = blockIdx.x * kThreads + threadIdx.x;
  if (j >= n) return;
  const float2 a = x[j], b = x[j + n], c = x[j + 2 * n], d = x[j + 3 * n];
  const float2 even_sum = add(a, c), even_difference = subtract(a, c);
  const float2 odd_sum = add(b, d), odd_difference = subtract(b, d);
  const float2 turned = make_float2(odd_difference.y, -odd_difference.x);
  y[j] = add(even_sum, odd_sum);
  y[j + n] = rotate(add(even_difference, turned), j, 1, n);
  y[j + 2 * n] = rotate(subtract(even_sum, odd_sum), j, 2, n);
  y[j + 3 * n] = rotate(subtract(even_difference, turned), j, 3, n);
}

}  // namespace

extern "C" int transform_pass(const float2* x, float2* y, std::int64_t n, void* stream) {
  const int blocks = static_cast<int>((n + kThreads - 1) / kThreads);
  radix4_pass<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(x, y,
                                                                          static_cast<int>(n));
  return static_cast<int>(cudaGetLastError());
}
