// kernel: int8_block_scaled_dp4a/after/cuda
// change: products of 16 x 8 outputs and 32 values on tensor cores

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

// Adds the product of a 16 x 32 and an 8 x 32 tile, both with 32 as the fast axis.
__device__ __forceinline__ void multiply_add(int (&d)[4], const unsigned (&a)[4],
                                             const unsigned (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__global__ void __launch_bounds__(kThreads)
    multiply_scaled(const signed char* __restrict__ a, const signed char* __restrict__ b,
                    const float* __restrict__ scales_a, const float* __restrict__ scales_b,
                    float* __restrict__ c, int n, int blocks) {
  __shared__ __align__(16) int tile_a[kTile][kStride];
  __shared__ __align__(16) int tile_b[kTile][kStride];
  const int k = blocks * kBlock;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row = warp / 2 * 16 + lane / 4, place = lane % 4;
  const int column = warp % 2 * 32;
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
    for (int word = 0; word < kBlock / 4; word += 8) {
      const unsigned left[4] = {static_cast<unsigned>(tile_a[row][word + place]),
                                static_cast<unsigned>(tile_a[row + 8][word + place]),
                                static_cast<unsigned>(tile_a[row][word + 4 + place]),
                                static_cast<unsigned>(tile_a[row + 8][word + 4 + place])};
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int* other = tile_b[column + 8 * j + lane / 4];
        const unsigned right[2] = {static_cast<unsigned>(other[word + place]),
                                   static_cast<unsigned>(other[word + 4 + place])};
        multiply_add(sums[j], left, right);
      }
    }
    const float upper = scales_a[(first_row + row) * blocks + block];
    const float lower = scales_a[(first_row + row + 8) * blocks + block];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float* scales = scales_b + (first_column + column + 8 * j + 2 * place) * blocks + block;
      const float even = scales[0], odd = scales[blocks];
      totals[j][0] += upper * even * static_cast<float>(sums[j][0]);
      totals[j][1] += upper * odd * static_cast<float>(sums[j][1]);
      totals[j][2] += lower * even * static_cast<float>(sums[j][2]);
      totals[j][3] += lower * odd * static_cast<float>(sums[j][3]);
    }
    __syncthreads();
  }
  c += static_cast<std::int64_t>(first_row + row) * n + first_column + column + 2 * place;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    *reinterpret_cast<float2*>(c + 8 * j) = make_float2(totals[j][0], totals[j][1]);
    *reinterpret_cast<float2*>(c + 8 * n + 8 * j) = make_float2(totals[j][2], totals[j][3]);
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
