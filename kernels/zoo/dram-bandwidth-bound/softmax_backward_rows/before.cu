// kernel: softmax_backward_rows/before/cuda
// at the roof: the second read of a row comes out of a cache, and DRAM sees each byte once
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

__device__ float block_sum(float value) {
  __shared__ float partial[kWarps];
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, offset);
  }
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  float total = 0.0f;
  for (int w = 0; w < kWarps; ++w) total += partial[w];
  return total;
}

__global__ void __launch_bounds__(kThreads)
    softmax_backward(const float4* __restrict__ probabilities, const float4* __restrict__ upstream,
                     float4* __restrict__ out, int quads) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * quads;
  const float4* p = probabilities + row;
  const float4* g = upstream + row;
  float dot = 0.0f;
#pragma unroll 2
  for (int i = threadIdx.x; i < quads; i += kThreads) {
    const float4 a = p[i];
    const float4 b = g[i];
    dot += a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
  }
  dot = block_sum(dot);
#pragma unroll 2
  for (int i = threadIdx.x; i < quads; i += kThreads) {
    const float4 a = p[i];
    const float4 b = g[i];
    out[row + i] = make_float4(a.x * (b.x - dot), a.y * (b.y - dot), a.z * (b.z - dot),
                               a.w * (b.w - dot));
  }
}

}  // namespace

extern "C" int softmax_backward_rows(const float* probabilities, const float* upstream, float* out,
                                     std::int64_t rows, std::int64_t columns, void* stream) {
  softmax_backward<<<static_cast<unsigned>(rows), kThreads, 0,
                     static_cast<cudaStream_t>(stream)>>>(
      reinterpret_cast<const float4*>(probabilities), reinterpret_cast<const float4*>(upstream),
      reinterpret_cast<float4*>(out), static_cast<int>(columns / 4));
  return static_cast<int>(cudaGetLastError());
}
