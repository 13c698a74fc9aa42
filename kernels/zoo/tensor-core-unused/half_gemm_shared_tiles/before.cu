// kernel: half_gemm_shared_tiles/before/cuda
// flaw: half-precision product with scalar multiply-adds
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kTile = 64;
constexpr int kDepth = 32;
constexpr int kPitchA = kDepth + 8;
constexpr int kPitchB = kTile + 8;

__global__ void __launch_bounds__(kThreads)
    multiply_tiles(const __half* __restrict__ a, const __half* __restrict__ b,
                   float* __restrict__ c, int n, int k) {
  __shared__ __align__(32) __half tile_a[kTile * kPitchA];
  __shared__ __align__(32) __half tile_b[kDepth * kPitchB];
  const int thread = threadIdx.x;
  const int first_row = blockIdx.y * kTile, first_column = blockIdx.x * kTile;
  const int row = thread / 16 * 4, column = thread % 16 * 4;
  float sums[4][4] = {};
  for (int step = 0; step < k; step += kDepth) {
    const int a_row = thread / 4, a_column = thread % 4 * 8;
    const int b_row = thread / 8, b_column = thread % 8 * 8;
    *reinterpret_cast<uint4*>(&tile_a[a_row * kPitchA + a_column]) =
        *reinterpret_cast<const uint4*>(&a[(first_row + a_row) * k + step + a_column]);
    *reinterpret_cast<uint4*>(&tile_b[b_row * kPitchB + b_column]) =
        *reinterpret_cast<const uint4*>(&b[(step + b_row) * n + first_column + b_column]);
    __syncthreads();
#pragma unroll 8
    for (int p = 0; p < kDepth; ++p) {
      const __half2* pairs = reinterpret_cast<const __half2*>(&tile_b[p * kPitchB + column]);
      const float2 left = __half22float2(pairs[0]), right = __half22float2(pairs[1]);
      for (int i = 0; i < 4; ++i) {
        const float value = __half2float(tile_a[(row + i) * kPitchA + p]);
        sums[i][0] += value * left.x;
        sums[i][1] += value * left.y;
        sums[i][2] += value * right.x;
        sums[i][3] += value * right.y;
      }
    }
    __syncthreads();
  }
  for (int i = 0; i < 4; ++i) {
    *reinterpret_cast<float4*>(&c[(first_row + row + i) * n + first_column + column]) =
        make_float4(sums[i][0], sums[i][1], sums[i][2], sums[i][3]);
  }
}

}  // namespace

extern "C" int multiply(const __half* a, const __half* b, float* c, std::int64_t m, std::int64_t n,
                        std::int64_t k, void* stream) {
  const dim3 blocks(static_cast<int>(n / kTile), static_cast<int>(m / kTile));
  multiply_tiles<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      a, b, c, static_cast<int>(n), static_cast<int>(k));
  return static_cast<int>(cudaGetLastError());
}
