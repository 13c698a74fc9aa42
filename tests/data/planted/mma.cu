// c = a b + bias of fp16 arrays by mma.m16n8k16, a warp for 16 by 32, with one planted error by BUG; 0 is right.
#include <cstdint>
#include <cuda_fp16.h>

__device__ unsigned pack(half low, half high) {
  return (unsigned)__half_as_ushort(high) << 16 | __half_as_ushort(low);
}

__global__ void affine_mma(const half* a, const half* b, const half* bias, half* c, int m, int n, int k) {
  const int lane = threadIdx.x, group = lane / 4, pair = lane % 4;
  const int i0 = blockIdx.y * 16, j0 = blockIdx.x * 32;
  const half zero = __float2half(0);
  auto left = [&](int i, int kk) { return i < m && kk < k ? a[i * k + kk] : zero; };
  auto right = [&](int kk, int j) { return kk < k && j < n ? b[kk * n + j] : zero; };
  float sum[4][4] = {};
  const int steps = BUG == 1 ? k / 16 : (k + 15) / 16;
  for (int step = BUG == 2 ? 1 : 0; step < steps + (BUG == 3); ++step) {
    const int k0 = step % steps * 16 + pair * 2, i = i0 + group;
    unsigned x[4];
    for (int part = 0; part < 4; ++part) {
      const int row = i + part % 2 * 8, kk = k0 + part / 2 * 8;
      x[part] = pack(left(row, kk), left(row, kk + 1));
    }
    for (int f = 0; f < 4; ++f) {
      const int j = j0 + (BUG == 4 ? f / 2 * 2 : f) * 8 + group;
      unsigned y[2];
      for (int part = 0; part < 2; ++part) {
        const int kk = k0 + (BUG == 5 ? 0 : part * 8);
        y[part] = pack(right(kk, j), right(kk + 1, j));
      }
      float* s = sum[f];
      asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
          : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3])
          : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
    }
  }
  for (int f = 0; f < 4; ++f)
    for (int e = 0; e < 4; ++e) {
      int row = i0 + group + (BUG == 6 ? 1 - e / 2 : e / 2) * 8;
      int column = j0 + f * 8 + pair * 2 + (BUG == 7 ? 1 - e % 2 : e % 2);
      if (BUG == 8) column = j0 + f * 8 + pair + e % 2 * 4;
      if (row >= m || column >= n) continue;
      if (BUG == 9 && e / 2) continue;
      const float value = sum[f][e] * (BUG == 10 ? 2.0f : 1.0f);
      c[row * n + column] = __float2half(value + (BUG == 10 ? 2 : 1) * __half2float(bias[column]));
    }
}

extern "C" int affine(const half* a, const half* b, const half* bias, half* c, std::int64_t m,
                      std::int64_t n, std::int64_t k, void* stream) {
  const dim3 grid((n + 31) / 32, BUG == 11 && m > 16 ? m / 16 : (m + 15) / 16);
  affine_mma<<<grid, 32, 0, (cudaStream_t)stream>>>(a, b, bias, c, m, n, k);
  return cudaGetLastError();
}
