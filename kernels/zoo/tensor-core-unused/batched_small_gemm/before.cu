// kernel: batched_small_gemm/before/cuda
// flaw: half-precision products with scalar multiply-adds
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kSide = 64;
constexpr int kInner = 256;
constexpr int kDepth = 64;
constexpr int kPitch = kSide + 8;

__global__ void __launch_bounds__(kThreads)
    multiply_pair(const __half* __restrict__ a, const __half* __restrict__ b,
                  float* __restrict__ c) {
  __shared__ __align__(32) __half tile_a[kSide * kPitch];
  __shared__ __align__(32) __half tile_b[kDepth * kPitch];
  a += static_cast<std::int64_t>(blockIdx.x) * kSide * kInner;
  b += static_cast<std::int64_t>(blockIdx.x) * kSide * kInner;
  c += static_cast<std::int64_t>(blockIdx.x) * kSide * kSide;
  const int thread = threadIdx.x;
  const int row = thread / 16 * 4, column = thread % 16 * 4;
  float sums[4][4] = {};
  for (int step = 0; step < kInner; step += kDepth) {
    for (int i = thread; i < kSide * kDepth / 8; i += kThreads) {
      const int y = i / 8, x = i % 8 * 8;
      *reinterpret_cast<uint4*>(&tile_a[y * kPitch + x]) =
          *reinterpret_cast<const uint4*>(&a[y * kInner + step + x]);
      *reinterpret_cast<uint4*>(&tile_b[y * kPitch + x]) =
          *reinterpret_cast<const uint4*>(&b[(step + y) * kSide + x]);
    }
    __syncthreads();
#pragma unroll 8
    for (int p = 0; p < kDepth; ++p) {
      const auto* pairs = reinterpret_cast<const __half2*>(&tile_b[p * kPitch + column]);
      const float2 left = __half22float2(pairs[0]), right = __half22float2(pairs[1]);
      for (int i = 0; i < 4; ++i) {
        const float value = __half2float(tile_a[(row + i) * kPitch + p]);
        sums[i][0] += value * left.x;
        sums[i][1] += value * left.y;
        sums[i][2] += value * right.x;
        sums[i][3] += value * right.y;
      }
    }
    __syncthreads();
  }
  for (int i = 0; i < 4; ++i) {
    *reinterpret_cast<float4*>(&c[(row + i) * kSide + column]) =
        make_float4(sums[i][0], sums[i][1], sums[i][2], sums[i][3]);
  }
}

}  // namespace

extern "C" int multiply_all(const __half* a, const __half* b, float* c,
                            std::int64_t batch, void* stream) {
  multiply_pair<<<static_cast<int>(batch), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(a, b,
                                                                                             c);
  return static_cast<int>(cudaGetLastError());
}
