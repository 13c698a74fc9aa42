// kernel: softmax_backward_rows/after/cuda
// change: each thread keeps its share of the row in registers between the two passes
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kMaxQuads = 2;  // of a thread, for rows of up to 2048 columns

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
  float4 a[kMaxQuads];
  float4 b[kMaxQuads];
  float dot = 0.0f;
#pragma unroll
  for (int k = 0; k < kMaxQuads; ++k) {
    const int i = k * kThreads + threadIdx.x;
    if (i < quads) {
      a[k] = p[i];
      b[k] = g[i];
      dot += a[k].x * b[k].x + a[k].y * b[k].y + a[k].z * b[k].z + a[k].w * b[k].w;
    }
  }
  dot = block_sum(dot);
#pragma unroll
  for (int k = 0; k < kMaxQuads; ++k) {
    const int i = k * kThreads + threadIdx.x;
    if (i < quads) {
      out[row + i] = make_float4(a[k].x * (b[k].x - dot), a[k].y * (b[k].y - dot),
                                 a[k].z * (b[k].z - dot), a[k].w * (b[k].w - dot));
    }
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
