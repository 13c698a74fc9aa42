// kernel: layernorm_gamma_beta_gradient/before/cuda
// flaw: every row of the input is added to the same 4096 global sums by atomics
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kPairs = 1024;  // of columns in a row
constexpr int kOwn = kPairs / kThreads;
constexpr int kRowsPerBlock = 1;

__global__ void __launch_bounds__(kThreads)
    add_rows(const __nv_bfloat162* __restrict__ gradient, const __nv_bfloat162* __restrict__ x,
             const float* __restrict__ mean, const float* __restrict__ rstd,
             float* __restrict__ gamma_sum, float* __restrict__ beta_sum, std::int64_t rows) {
  float2 gamma[kOwn] = {};
  float2 beta[kOwn] = {};
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kRowsPerBlock;
#pragma unroll 4
  for (int r = 0; r < kRowsPerBlock; ++r) {
    const std::int64_t row = first + r;
    if (row >= rows) break;
    const float row_mean = mean[row];
    const float row_rstd = rstd[row];
#pragma unroll
    for (int k = 0; k < kOwn; ++k) {
      const std::int64_t at = row * kPairs + k * kThreads + threadIdx.x;
      const float2 g = __bfloat1622float2(gradient[at]);
      const float2 v = __bfloat1622float2(x[at]);
      gamma[k].x += g.x * (v.x - row_mean) * row_rstd;
      gamma[k].y += g.y * (v.y - row_mean) * row_rstd;
      beta[k].x += g.x;
      beta[k].y += g.y;
    }
  }
#pragma unroll
  for (int k = 0; k < kOwn; ++k) {
    const int column = 2 * (k * kThreads + threadIdx.x);
    atomicAdd(&gamma_sum[column], gamma[k].x);
    atomicAdd(&gamma_sum[column + 1], gamma[k].y);
    atomicAdd(&beta_sum[column], beta[k].x);
    atomicAdd(&beta_sum[column + 1], beta[k].y);
  }
}

}  // namespace

extern "C" int gamma_beta_gradient(const void* gradient, const void* x, const float* mean,
                                   const float* rstd, const float* gamma_start,
                                   const float* beta_start, float* gamma_sum, float* beta_sum,
                                   std::int64_t rows, void* stream) {
  (void)gamma_start;
  (void)beta_start;
  const unsigned blocks = static_cast<unsigned>((rows + kRowsPerBlock - 1) / kRowsPerBlock);
  add_rows<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const __nv_bfloat162*>(gradient), static_cast<const __nv_bfloat162*>(x), mean,
      rstd, gamma_sum, beta_sum, rows);
  return static_cast<int>(cudaGetLastError());
}
