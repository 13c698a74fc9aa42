// fix: ldmatrix
// arch: sm_80 sm_90a sm_100a
// source: kernelkb-judgement
#include <cuda_fp16.h>
#include <cuda_runtime.h>

// One warp: c[16][8] = sum over 16 k of a[16][k] * b[8][k]; all arrays are dense.
// Rows of 24 halves (48 bytes) start in different banks and keep 16-byte alignment.
constexpr int kPitch = 24;

__device__ void stage(__half (*tile)[kPitch], const __half* a) {
  const int row = threadIdx.x / 2, half = threadIdx.x % 2;
  *reinterpret_cast<uint4*>(&tile[row][half * 8]) =
      reinterpret_cast<const uint4*>(a)[threadIdx.x];
  __syncwarp();
}

__device__ void multiply_and_store(const unsigned (&x)[4], const __half* b, float* c) {
  const int group = threadIdx.x / 4, own = threadIdx.x % 4 * 2;
  const unsigned y0 = *reinterpret_cast<const unsigned*>(b + group * 16 + own);
  const unsigned y1 = *reinterpret_cast<const unsigned*>(b + group * 16 + own + 8);
  float d[4] = {};
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y0), "r"(y1));
  *reinterpret_cast<float2*>(c + group * 8 + own) = make_float2(d[0], d[1]);
  *reinterpret_cast<float2*>(c + (group + 8) * 8 + own) = make_float2(d[2], d[3]);
}

namespace before {

// Eight loads of two bytes per lane.
__global__ void multiply(const __half* a, const __half* b, float* c) {
  __shared__ __align__(16) __half tile[16][kPitch];
  stage(tile, a);
  const int group = threadIdx.x / 4, own = threadIdx.x % 4 * 2;
  unsigned x[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {  // rows 8 below for odd i, columns 8 right from i = 2 on
    const __half* from = &tile[group + i % 2 * 8][own + i / 2 * 8];
    x[i] = __half_as_ushort(from[0]) | static_cast<unsigned>(__half_as_ushort(from[1])) << 16;
  }
  multiply_and_store(x, b, c);
}

}  // namespace before

namespace after {

// One instruction; lane l names row l % 16 and the left or right half of the columns.
__global__ void multiply(const __half* a, const __half* b, float* c) {
  __shared__ __align__(16) __half tile[16][kPitch];
  stage(tile, a);
  const void* from = &tile[threadIdx.x % 16][threadIdx.x / 16 * 8];
  unsigned x[4];
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(from)))
               : "memory");
  multiply_and_store(x, b, c);
}

}  // namespace after
