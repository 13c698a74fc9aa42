// kernel: bias_gelu_backward/before/cuda
// flaw: a general power for a cube costs most of the instructions
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

namespace {

constexpr int kThreads = 128;
constexpr float kScale = 0.7978845608028654f;  // sqrt(2 / pi)
constexpr float kCubic = 0.044715f;

__device__ float gelu_slope(float z) {
  const float t = tanhf(kScale * (z + kCubic * powf(z, 3.0f)));
  return 0.5f * (1.0f + t) +
         0.5f * z * (1.0f - t * t) * kScale * (1.0f + 3.0f * kCubic * z * z);
}

__device__ unsigned pair_gradient(unsigned gradient, unsigned x, unsigned bias) {
  const float low = gelu_slope(__uint_as_float(x << 16) + __uint_as_float(bias << 16)) *
                    __uint_as_float(gradient << 16);
  const float high =
      gelu_slope(__uint_as_float(x & 0xffff0000u) + __uint_as_float(bias & 0xffff0000u)) *
      __uint_as_float(gradient & 0xffff0000u);
  const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const unsigned*>(&both);
}

__global__ void __launch_bounds__(kThreads)
    gelu_gradient(const uint4* __restrict__ gradient, const uint4* __restrict__ x,
                  const uint4* __restrict__ bias, uint4* __restrict__ out, int chunks) {
  const int column = blockIdx.x * kThreads + threadIdx.x;
  if (column >= chunks) return;
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.y) * chunks + column;
  const uint4 g = gradient[at];
  const uint4 v = x[at];
  const uint4 b = bias[column];
  uint4 result;
  result.x = pair_gradient(g.x, v.x, b.x);
  result.y = pair_gradient(g.y, v.y, b.y);
  result.z = pair_gradient(g.z, v.z, b.z);
  result.w = pair_gradient(g.w, v.w, b.w);
  out[at] = result;
}

}  // namespace

extern "C" int bias_gelu_backward(const void* gradient, const void* x, const void* bias, void* out,
                                  std::int64_t rows, std::int64_t columns, void* stream) {
  const int chunks = static_cast<int>(columns / 8);
  const dim3 grid((chunks + kThreads - 1) / kThreads, static_cast<unsigned>(rows));
  gelu_gradient<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const uint4*>(gradient), static_cast<const uint4*>(x),
      static_cast<const uint4*>(bias), static_cast<uint4*>(out), chunks);
  return static_cast<int>(cudaGetLastError());
}
