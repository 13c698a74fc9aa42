// fix: use-wgmma
// arch: sm_90a
// source: hopper-dissection
#include <cstdint>

#include <cuda_fp16.h>
#include <cuda_runtime.h>

// c[m][n] = sum over k of a[m][k] * b[n][k]; m, n, k are multiples of 64, 8 and 64.
// Grid (n / 8, m / 64), 128 threads: four warps, which are one warp group.
constexpr int kDepth = 64;  // 64 halves are a row of 128 bytes, the width of the swizzle

// Copies rows of 128 bytes; the 16-byte chunk c of row r goes to place c ^ r % 8.
__device__ void stage(__half* tile, const __half* from, int rows, int k) {
  for (int i = threadIdx.x; i < rows * 8; i += 128) {
    const int r = i / 8, c = i % 8;
    reinterpret_cast<uint4*>(tile)[r * 8 + (c ^ r % 8)] =
        reinterpret_cast<const uint4*>(from + static_cast<size_t>(r) * k)[c];
  }
}

__device__ unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// Warp w holds rows 16 w to 16 w + 15 of the 64 x 8 sums, in both versions alike.
__device__ void store(float* c, const float (&d)[4], int n) {
  const int row = blockIdx.y * 64 + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
  float* out = c + static_cast<size_t>(row) * n + blockIdx.x * 8 + threadIdx.x % 4 * 2;
  *reinterpret_cast<float2*>(out) = make_float2(d[0], d[1]);
  *reinterpret_cast<float2*>(out + static_cast<size_t>(8) * n) = make_float2(d[2], d[3]);
}

namespace before {

// Each warp loads its fragments into registers, and multiplies 16 x 8 x 16 at a time.
__global__ void multiply(const __half* a, const __half* b, float* c, int n, int k) {
  __shared__ __align__(1024) __half ta[64 * kDepth], tb[8 * kDepth];
  const int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane % 16;
  float d[4] = {};
  for (int first = 0; first < k; first += kDepth) {
    stage(ta, a + static_cast<size_t>(blockIdx.y) * 64 * k + first, 64, k);
    stage(tb, b + static_cast<size_t>(blockIdx.x) * 8 * k + first, 8, k);
    __syncthreads();
#pragma unroll
    for (int s = 0; s < kDepth / 16; ++s) {
      unsigned x[4], y[2];
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                   : "r"(shared_address(ta + row * 64 + ((2 * s + lane / 16) ^ row % 8) * 8)));
      asm volatile(
          "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
          : "=r"(y[0]), "=r"(y[1])
          : "r"(shared_address(tb + lane % 8 * 64 + ((2 * s + lane / 8 % 2) ^ lane % 8) * 8)));
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
          "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
          : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
          : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
    }
    __syncthreads();
  }
  store(c, d, n);
}

}  // namespace before

namespace after {

// Address / 16, 1024 bytes between groups of eight rows, swizzle of 128 bytes.
__device__ std::uint64_t describe(const void* tile) {
  return shared_address(tile) / 16 | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

// The warp group multiplies 64 x 8 x 16 at a time, both operands straight from shared memory.
__global__ void multiply(const __half* a, const __half* b, float* c, int n, int k) {
  __shared__ __align__(1024) __half ta[64 * kDepth], tb[8 * kDepth];
  float d[4] = {};
  for (int first = 0; first < k; first += kDepth) {
    stage(ta, a + static_cast<size_t>(blockIdx.y) * 64 * k + first, 64, k);
    stage(tb, b + static_cast<size_t>(blockIdx.x) * 8 * k + first, 8, k);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // stores, then async reads
    __syncthreads();
    asm volatile("wgmma.fence.sync.aligned;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])::"memory");
#pragma unroll
    for (int s = 0; s < kDepth / 16; ++s) {  // 16 halves further on: 32 bytes, 2 units
      asm volatile(
          "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 "
          "{%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
          : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
          : "l"(describe(ta) + 2 * s), "l"(describe(tb) + 2 * s));
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])::"memory");
    __syncthreads();
  }
  store(c, d, n);
}

}  // namespace after
