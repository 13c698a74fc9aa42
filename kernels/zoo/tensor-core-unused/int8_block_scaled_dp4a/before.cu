// kernel: int8_block_scaled_dp4a/before/cuda
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kTile = 64;
constexpr int kBlock = 128;              // values of a row that share a scale
constexpr int kStride = kBlock / 4 + 4;  // words of a row in shared memory

__device__ __forceinline__ void load_tile(int (&tile)[kTile][kStride],
                                          const signed char* __restrict__ from, int k) {
#pragma unroll
  for (int i = threadIdx.x; i < kTile * kBlock / 16; i += kThreads) {
    const int row = i / (kBlock / 16), chunk = i % (kBlock / 16);
    const auto* source = from + static_cast<std::int64_t>(row) * k + chunk * 16;
    *reinterpret_cast<int4*>(&tile[row][chunk * 4]) = *reinterpret_cast<const int4*>(source);
  }
}

__device__ __forceinline__ int add_products(int4 a, int4 b, int sum) {
  return __dp4a(a.w, b.w, __dp4a(a.z, b.z, __dp4a(a.y, b.y, __dp4a(a.x, b.x, sum))));
}

__global__ void __launch_bounds__(kThreads)
    multiply_scaled(const signed char* __restrict__ a, const signed char* __restrict__ b,
                    const float* __restrict__ scales_a, const float* __restrict__ scales_b,
                    float* __restrict__ c, int n, int blocks) {
  __shared__ __align__(16) int tile_a[kTile][kStride];
  __shared__ __align__(16) int tile_b[kTile][kStride];
  const int k = blocks * kBlock;
  const int column = threadIdx.x % 16, row = threadIdx.x / 16;
  const int first_row = blockIdx.y * kTile, first_column = blockIdx.x * kTile;
  a += static_cast<std::int64_t>(first_row) * k;
  b += static_cast<std::int64_t>(first_column) * k;
  float totals[4][4] = {};
  for (int block = 0; block < blocks; ++block) {
    load_tile(tile_a, a + block * kBlock, k);
    load_tile(tile_b, b + block * kBlock, k);
    __syncthreads();
    int sums[4][4] = {};
#pragma unroll
    for (int word = 0; word < kBlock / 4; word += 4) {
      int4 left[4], right[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        left[i] = *reinterpret_cast<const int4*>(&tile_a[row + 16 * i][word]);
        right[i] = *reinterpret_cast<const int4*>(&tile_b[column + 16 * i][word]);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) sums[i][j] = add_products(left[i], right[j], sums[i][j]);
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float scale = scales_a[(first_row + row + 16 * i) * blocks + block];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float other = scales_b[(first_column + column + 16 * j) * blocks + block];
        totals[i][j] += scale * other * static_cast<float>(sums[i][j]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float* to = c + static_cast<std::int64_t>(first_row + row + 16 * i) * n + first_column;
#pragma unroll
    for (int j = 0; j < 4; ++j) to[column + 16 * j] = totals[i][j];
  }
}

}  // namespace

extern "C" int multiply(const signed char* a, const signed char* b, const float* scales_a,
                        const float* scales_b, float* c, std::int64_t m, std::int64_t n,
                        std::int64_t blocks, void* stream) {
  if (m % kTile != 0 || n % kTile != 0) return static_cast<int>(cudaErrorInvalidValue);
  const dim3 grid(static_cast<unsigned>(n / kTile), static_cast<unsigned>(m / kTile));
  multiply_scaled<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      a, b, scales_a, scales_b, c, static_cast<int>(n), static_cast<int>(blocks));
  return static_cast<int>(cudaGetLastError());
}
