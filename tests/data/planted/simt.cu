// c = a b + bias with shared-memory tiles of 64 by 64, with one planted error by the macro BUG; 0 is right.
#include <cstdint>
#include <cuda_runtime.h>

constexpr int T = 64, KT = 16, R = 4;

__global__ void affine_simt(const float* a, const float* b, const float* bias, float* c, int m, int n,
                            int k, int tiles_n, int tiles) {
  __shared__ float as[KT][T + 4], bs[KT][T + 4];
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  float sum[R][R] = {};
  for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int i0 = tile / tiles_n * T, j0 = tile % tiles_n * T;
    if (BUG != 5)
      for (int i = 0; i < R; ++i)
        for (int j = 0; j < R; ++j) sum[i][j] = 0;
    for (int k0 = BUG == 2 ? KT : 0; k0 < (BUG == 1 ? k / KT * KT : k); k0 += KT) {
      for (int at = threadIdx.x; at < T * KT; at += 256) {
        const int i = at / KT, kk = at % KT, kb = at / T, j = at % T;
        const int row = BUG == 7 ? i : i0 + i;
        const bool in_a = row < m && i0 + i < m && k0 + kk < k, in_b = j0 + j < n && k0 + kb < k;
        as[kk][i] = in_a ? (BUG == 6 ? a[(k0 + kk) * m + row] : a[row * k + k0 + kk]) : 0;
        bs[kb][j] = in_b ? b[(k0 + kb) * n + j0 + j] : 0;
      }
      __syncthreads();
      // 3: half of the warps, by chance which, read when the others have written the next tile.
      if (BUG == 3) __nanosleep((threadIdx.x / 32 + clock64() / 8) % 2 * 20000);
      for (int kk = 0; kk < KT; ++kk)
        for (int i = 0; i < R; ++i)
          for (int j = 0; j < R; ++j)
            sum[i][j] += as[kk][ty * R + i] * bs[kk][tx * R + (BUG == 4 ? j % 2 : j)];
      if (BUG != 3) __syncthreads();
    }
    for (int i = 0; i < R; ++i)
      for (int j = 0; j < R; ++j) {
        const int row = i0 + ty * R + (BUG == 8 ? i ^ 1 : i), column = j0 + tx * R + j;
        if (row >= m || column >= n) continue;
        if (BUG == 9 && column / 4 * 4 + 4 > n) continue;
        c[row * n + column] = sum[i][j] + (BUG == 10 ? 0 : bias[column]);
      }
    __syncthreads();
  }
}

extern "C" int affine(const float* a, const float* b, const float* bias, float* c, std::int64_t m,
                      std::int64_t n, std::int64_t k, void* stream) {
  const int tiles_m = BUG == 11 ? (m + T - 1) / T - (m > T) : (m + T - 1) / T;
  const int tiles_n = (n + T - 1) / T, tiles = tiles_m * tiles_n;
  const int blocks = BUG == 5 ? 1 : tiles;
  affine_simt<<<blocks, 256, 0, (cudaStream_t)stream>>>(a, b, bias, c, m, n, k, tiles_n, tiles);
  return cudaGetLastError();
}
