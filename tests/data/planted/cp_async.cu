// c = a b + bias through a ring of three stages filled by cp.async, with one planted error by BUG; 0 is right.
#include <cstdint>
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

constexpr int T = 32, S = 3;

struct Stage {
  float a[T][T], b[T][T];
};

__global__ void affine_async(const float* a, const float* b, const float* bias, float* c, int m, int n,
                             int k) {
  __shared__ Stage ring[S];
  const int i0 = blockIdx.y * T, j0 = blockIdx.x * T, tx = threadIdx.x % T, ty = threadIdx.x / T;
  const int tiles = (k + T - 1) / T, swizzle = BUG == 5 ? 8 : 0;
  auto fill = [&](int tile) {
    if (tile < tiles) {
      Stage& stage = ring[tile % S];
      for (int r = ty; r < T; r += 8) {
        const int k0 = tile * T, at = tx ^ (swizzle * (r / 4 % 4));
        if (i0 + r < m && k0 + tx < k)
          __pipeline_memcpy_async(&stage.a[r][tx], &a[(i0 + r) * k + k0 + tx], 4);
        else
          stage.a[r][tx] = 0;
        if (k0 + r < k && j0 + tx < n)
          __pipeline_memcpy_async(&stage.b[r][at], &b[(k0 + r) * n + j0 + tx], 4);
        else
          stage.b[r][at] = 0;
      }
    }
    __pipeline_commit();
  };
  float sum[4] = {};
  for (int tile = 0; tile < S - 1; ++tile) fill(tile);
  for (int tile = BUG == 2 ? 1 : 0; tile < tiles - (BUG == 1 && tiles > 1); ++tile) {
    if (BUG != 3) __pipeline_wait_prior(BUG == 2 ? 0 : S - 2);
    __syncthreads();
    fill(tile + S - 1 - (BUG == 2));
    if (BUG == 2) __pipeline_wait_prior(0), __syncthreads();
    const Stage& stage = ring[(BUG == 4 && tile == tiles - 1 && tile ? tile - 1 : tile) % S];
    for (int kk = 0; kk < T; ++kk)
      for (int r = 0; r < 4; ++r) sum[r] += stage.a[ty + r * 8][kk] * stage.b[kk][tx];
    __syncthreads();
  }
  for (int r = 0; r < 4; ++r) {
    const int row = i0 + ty + r * 8, column = j0 + tx;
    if (row < m && column < n) c[row * n + column] = sum[r] + bias[column];
  }
}

extern "C" int affine(const float* a, const float* b, const float* bias, float* c, std::int64_t m,
                      std::int64_t n, std::int64_t k, void* stream) {
  const dim3 grid((n + T - 1) / T, (m + T - 1) / T);
  affine_async<<<grid, 256, 0, (cudaStream_t)stream>>>(a, b, bias, c, m, n, k);
  return cudaGetLastError();
}
