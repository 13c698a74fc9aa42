// kernel: residual_layernorm_512/before/cuda
// flaw: a block of 256 threads shares a row of 512 values, and waits for its own sums twice
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kColumns = 512;
constexpr int kPairs = kColumns / 2;
constexpr int kPerThread = kPairs / kThreads;
constexpr float kEpsilon = 1e-5f;

__device__ float row_sum(float value, float* partial) {
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
    add_norm(const __nv_bfloat162* __restrict__ x, const __nv_bfloat162* __restrict__ residual,
             const __nv_bfloat162* __restrict__ gamma, const __nv_bfloat162* __restrict__ beta,
             __nv_bfloat162* __restrict__ sums, __nv_bfloat162* __restrict__ normed, int rows) {
  __shared__ float partial[2][kWarps];
  const int row = blockIdx.x;
  const int lane = threadIdx.x;
  if (row >= rows) return;
  const std::int64_t first = static_cast<std::int64_t>(row) * kPairs + lane;
  float2 value[kPerThread];
  float sum = 0.0f;
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) {
    const float2 a = __bfloat1622float2(x[first + k * kThreads]);
    const float2 b = __bfloat1622float2(residual[first + k * kThreads]);
    value[k] = make_float2(a.x + b.x, a.y + b.y);
    sums[first + k * kThreads] = __float22bfloat162_rn(value[k]);
    sum += value[k].x + value[k].y;
  }
  const float mean = row_sum(sum, partial[0]) / kColumns;
  float squares = 0.0f;
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) {
    value[k].x -= mean;
    value[k].y -= mean;
    squares += value[k].x * value[k].x + value[k].y * value[k].y;
  }
  const float scale = rsqrtf(row_sum(squares, partial[1]) / kColumns + kEpsilon);
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) {
    const float2 g = __bfloat1622float2(gamma[lane + k * kThreads]);
    const float2 b = __bfloat1622float2(beta[lane + k * kThreads]);
    normed[first + k * kThreads] = __float22bfloat162_rn(
        make_float2(value[k].x * scale * g.x + b.x, value[k].y * scale * g.y + b.y));
  }
}

}  // namespace

extern "C" int residual_layernorm(const __nv_bfloat162* x, const __nv_bfloat162* residual,
                                  const __nv_bfloat162* gamma, const __nv_bfloat162* beta,
                                  __nv_bfloat162* sums, __nv_bfloat162* normed, std::int64_t rows,
                                  void* stream) {
  add_norm<<<static_cast<unsigned>(rows), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      x, residual, gamma, beta, sums, normed, static_cast<int>(rows));
  return static_cast<int>(cudaGetLastError());
}
