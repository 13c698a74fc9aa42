// kernel: causal_conv1d_width4/after/cuda
// change: 11 steps of 128 channels are staged in shared memory for 8 steps of outputs, instead of
// 4 reads for each output
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kWidth = 4;
constexpr int kVectors = 32;  // of four channels
constexpr int kSteps = 8;

__device__ float4 load_step(const float4* x, int t, int vector, int vectors) {
  if (t < 0 || vector >= vectors) return make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  return x[static_cast<std::int64_t>(t) * vectors + vector];
}

__global__ void __launch_bounds__(kVectors * kSteps)
    convolve_time(const float4* __restrict__ x, const float4* __restrict__ weight,
                  const float4* __restrict__ bias, float4* __restrict__ y, int time,
                  int vectors) {
  const int vector = blockIdx.x * kVectors + threadIdx.x;
  const int t = blockIdx.y * kSteps + threadIdx.y;
  const std::int64_t sequence = static_cast<std::int64_t>(blockIdx.z) * time * vectors;
  __shared__ float4 tile[kSteps + kWidth - 1][kVectors];
  for (int row = threadIdx.y; row < kSteps + kWidth - 1; row += kSteps) {
    const int step = static_cast<int>(blockIdx.y * kSteps) - (kWidth - 1) + row;
    tile[row][threadIdx.x] = load_step(x + sequence, step < time ? step : -1, vector, vectors);
  }
  __syncthreads();
  if (vector >= vectors || t >= time) return;

  float4 sum = bias[vector];
#pragma unroll
  for (int k = 0; k < kWidth; ++k) {
    const float4 in = tile[threadIdx.y + k][threadIdx.x];
    const float4 tap = weight[k * vectors + vector];
    sum.x += tap.x * in.x;
    sum.y += tap.y * in.y;
    sum.z += tap.z * in.z;
    sum.w += tap.w * in.w;
  }
  y[sequence + static_cast<std::int64_t>(t) * vectors + vector] = sum;
}

}  // namespace

extern "C" int causal_conv1d(const float* x, const float* weight, const float* bias, float* y,
                             std::int64_t batch, std::int64_t time, std::int64_t channels,
                             void* stream) {
  const int vectors = static_cast<int>(channels / 4);
  const dim3 grid((vectors + kVectors - 1) / kVectors,
                  static_cast<unsigned>((time + kSteps - 1) / kSteps),
                  static_cast<unsigned>(batch));
  convolve_time<<<grid, dim3(kVectors, kSteps), 0, static_cast<cudaStream_t>(stream)>>>(
      reinterpret_cast<const float4*>(x), reinterpret_cast<const float4*>(weight),
      reinterpret_cast<const float4*>(bias), reinterpret_cast<float4*>(y),
      static_cast<int>(time), vectors);
  return static_cast<int>(cudaGetLastError());
}
