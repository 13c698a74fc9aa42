// fix: use-tensor-cores
// arch: sm_80 sm_90a sm_100a
// source: cccl-arch-traits
#include <cuda_fp16.h>
#include <cuda_runtime.h>

// c[m][n] = sum over k of a[m][k] * b[n][k]; m, n, k are multiples of 16, 8 and 16.
namespace before {

// Grid (n / 8, m / 16), 8 x 16 threads, one output each.
__global__ void multiply(const __half* __restrict__ a, const __half* __restrict__ b,
                         float* __restrict__ c, int n, int k) {
  const int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 8 + threadIdx.x;
  float sum = 0.0f;
  for (int i = 0; i < k; ++i) {
    sum = fmaf(__half2float(a[static_cast<size_t>(row) * k + i]),
               __half2float(b[static_cast<size_t>(col) * k + i]), sum);
  }
  c[static_cast<size_t>(row) * n + col] = sum;
}

}  // namespace before

namespace after {

__device__ unsigned pair(const __half* p) { return *reinterpret_cast<const unsigned*>(p); }

// Grid (n / 8, m / 16), one warp: 2048 multiply-adds per instruction, sums in fp32.
__global__ void multiply(const __half* __restrict__ a, const __half* __restrict__ b,
                         float* __restrict__ c, int n, int k) {
  const int group = threadIdx.x / 4, own = threadIdx.x % 4 * 2;
  const int row = blockIdx.y * 16 + group;
  const __half* top = a + static_cast<size_t>(row) * k + own;
  const __half* low = top + static_cast<size_t>(8) * k;
  const __half* right = b + static_cast<size_t>(blockIdx.x * 8 + group) * k + own;
  float d[4] = {};
  for (int i = 0; i < k; i += 16) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(pair(top + i)), "r"(pair(low + i)), "r"(pair(top + i + 8)),
          "r"(pair(low + i + 8)), "r"(pair(right + i)), "r"(pair(right + i + 8)));
  }
  float* out = c + static_cast<size_t>(row) * n + blockIdx.x * 8 + own;
  *reinterpret_cast<float2*>(out) = make_float2(d[0], d[1]);
  *reinterpret_cast<float2*>(out + static_cast<size_t>(8) * n) = make_float2(d[2], d[3]);
}

}  // namespace after
