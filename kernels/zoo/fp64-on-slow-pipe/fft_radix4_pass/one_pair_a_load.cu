// kernel: fft_radix4_pass/one-pair-a-load/cuda
// change: 2 complex values for each load and store instead of 1
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kPerThread = 2;
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

__device__ __forceinline__ float2 lower(float4 pair) { return make_float2(pair.x, pair.y); }

__device__ __forceinline__ float2 upper(float4 pair) { return make_float2(pair.z, pair.w); }

__device__ __forceinline__ void transform_values(float2 a, float2 b, float2 c, float2 d,
                                                 float2 (&out)[4], int j, int n) {
  const float2 even_sum = add(a, c), even_difference = subtract(a, c);
  const float2 odd_sum = add(b, d), odd_difference = subtract(b, d);
  const float2 turned = make_float2(odd_difference.y, -odd_difference.x);
  out[0] = add(even_sum, odd_sum);
  out[1] = rotate(add(even_difference, turned), j, 1, n);
  out[2] = rotate(subtract(even_sum, odd_sum), j, 2, n);
  out[3] = rotate(subtract(even_difference, turned), j, 3, n);
}

__device__ __forceinline__ void transform_one(float2 a, float2 b, float2 c, float2 d, float2* y,
                                              int j, int n) {
  float2 out[4];
  transform_values(a, b, c, d, out, j, n);
#pragma unroll
  for (int k = 0; k < 4; ++k) y[j + k * n] = out[k];
}

__global__ void __launch_bounds__(kThreads)
    radix4_pass(const float2* __restrict__ x, float2* __restrict__ y, int n) {
  const int j = kPerThread * (blockIdx.x * kThreads + threadIdx.x);
  if (j >= n) return;
  if (n % kPerThread != 0) {
    transform_one(x[j], x[j + n], x[j + 2 * n], x[j + 3 * n], y, j, n);
    if (j + 1 < n) {
      transform_one(x[j + 1], x[j + 1 + n], x[j + 1 + 2 * n], x[j + 1 + 3 * n], y, j + 1, n);
    }
    return;
  }
  float4 row[4];
#pragma unroll
  for (int k = 0; k < 4; ++k) row[k] = *reinterpret_cast<const float4*>(x + j + k * n);
  float2 left[4], right[4];
  transform_values(lower(row[0]), lower(row[1]), lower(row[2]), lower(row[3]), left, j, n);
  transform_values(upper(row[0]), upper(row[1]), upper(row[2]), upper(row[3]), right, j + 1, n);
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    *reinterpret_cast<float4*>(y + j + k * n) =
        make_float4(left[k].x, left[k].y, right[k].x, right[k].y);
  }
}

}  // namespace

extern "C" int transform_pass(const float2* x, float2* y, std::int64_t n, void* stream) {
  constexpr int kBlock = kThreads * kPerThread;
  const int blocks = static_cast<int>((n + kBlock - 1) / kBlock);
  radix4_pass<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(x, y,
                                                                          static_cast<int>(n));
  return static_cast<int>(cudaGetLastError());
}
