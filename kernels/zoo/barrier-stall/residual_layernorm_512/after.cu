// kernel: residual_layernorm_512/after/cuda
// change: each warp takes a row of its own and sums by shuffles alone
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kColumns = 512;
constexpr int kPairs = kColumns / 2;
constexpr int kPerThread = kPairs / 32;
constexpr float kEpsilon = 1e-5f;

__device__ float row_sum(float value) {
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, offset);
  }
  return value;
}

__global__ void __launch_bounds__(kThreads)
    add_norm(const __nv_bfloat162* __restrict__ x, const __nv_bfloat162* __restrict__ residual,
             const __nv_bfloat162* __restrict__ gamma, const __nv_bfloat162* __restrict__ beta,
             __nv_bfloat162* __restrict__ sums, __nv_bfloat162* __restrict__ normed, int rows) {
  const int row = blockIdx.x * kWarps + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (row >= rows) return;
  const std::int64_t first = static_cast<std::int64_t>(row) * kPairs + lane;
  float2 value[kPerThread];
  float sum = 0.0f;
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) {
    const float2 a = __bfloat1622float2(x[first + k * 32]);
    const float2 b = __bfloat1622float2(residual[first + k * 32]);
    value[k] = make_float2(a.x + b.x, a.y + b.y);
    sums[first + k * 32] = __float22bfloat162_rn(value[k]);
    sum += value[k].x + value[k].y;
  }
  const float mean = row_sum(sum) / kColumns;
  float squares = 0.0f;
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) {
    value[k].x -= mean;
    value[k].y -= mean;
    squares += value[k].x * value[k].x + value[k].y * value[k].y;
  }
  const float scale = rsqrtf(row_sum(squares) / kColumns + kEpsilon);
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) {
    const float2 g = __bfloat1622float2(gamma[lane + k * 32]);
    const float2 b = __bfloat1622float2(beta[lane + k * 32]);
    normed[first + k * 32] = __float22bfloat162_rn(
        make_float2(value[k].x * scale * g.x + b.x, value[k].y * scale * g.y + b.y));
  }
}

}  // namespace

extern "C" int residual_layernorm(const __nv_bfloat162* x, const __nv_bfloat162* residual,
                                  const __nv_bfloat162* gamma, const __nv_bfloat162* beta,
                                  __nv_bfloat162* sums, __nv_bfloat162* normed, std::int64_t rows,
                                  void* stream) {
  const auto blocks = static_cast<unsigned>((rows + kWarps - 1) / kWarps);
  add_norm<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      x, residual, gamma, beta, sums, normed, static_cast<int>(rows));
  return static_cast<int>(cudaGetLastError());
}
