// kernel: mma_gemm_scalar_fragments/after/cuda
// change: fragments are loaded with ldmatrix
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kTileM = 128;
constexpr int kTileN = 128;
constexpr int kWarpM = 64;
constexpr int kWarpN = 32;
constexpr int kDepth = 32;
constexpr int kPitchA = kDepth + 8;
constexpr int kPitchB = kTileN + 8;

// Copies a tile of kRows x kColumns halves, 16 bytes at a time.
template <int kRows, int kColumns>
__device__ void copy_tile(__half* tile, int pitch, const __half* source, int stride) {
  constexpr int kChunks = kRows * kColumns / 8;
#pragma unroll
  for (int first = 0; first < kChunks; first += kThreads) {
    const int i = first + threadIdx.x;
    if (kChunks % kThreads != 0 && i >= kChunks) break;
    const int y = i / (kColumns / 8), x = i % (kColumns / 8) * 8;
    *reinterpret_cast<uint4*>(&tile[y * pitch + x]) =
        *reinterpret_cast<const uint4*>(&source[y * stride + x]);
  }
}

__device__ void multiply_add(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ unsigned shared_address(const __half* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// Loads a 16 x 16 fragment of a.
__device__ void load_a(unsigned (&part)[4], const __half* tile) {
  const int lane = threadIdx.x % 32;
  const __half* own = tile + lane % 16 * kPitchA + lane / 16 * 8;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(part[0]), "=r"(part[1]), "=r"(part[2]), "=r"(part[3])
               : "r"(shared_address(own))
               : "memory");
}

// Loads a 16 x 8 fragment of b.
__device__ void load_b(unsigned (&part)[2], const __half* tile) {
  const __half* own = tile + threadIdx.x % 16 * kPitchB;
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(part[0]), "=r"(part[1])
               : "r"(shared_address(own))
               : "memory");
}

__global__ void __launch_bounds__(kThreads)
    multiply_tiles(const __half* __restrict__ a, const __half* __restrict__ b,
                   float* __restrict__ c, int n, int k) {
  __shared__ __align__(32) __half tile_a[kTileM * kPitchA];
  __shared__ __align__(32) __half tile_b[kDepth * kPitchB];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row = warp / 4 * kWarpM, column = warp % 4 * kWarpN;
  a += static_cast<std::int64_t>(blockIdx.y) * kTileM * k;
  b += blockIdx.x * kTileN;
  c += static_cast<std::int64_t>(blockIdx.y) * kTileM * n + blockIdx.x * kTileN;
  float sums[kWarpM / 16][kWarpN / 8][4] = {};
#pragma unroll 1
  for (int step = 0; step < k; step += kDepth) {
    copy_tile<kTileM, kDepth>(tile_a, kPitchA, a + step, k);
    copy_tile<kDepth, kTileN>(tile_b, kPitchB, b + static_cast<std::int64_t>(step) * n, n);
    __syncthreads();
#pragma unroll
    for (int p = 0; p < kDepth; p += 16) {
      unsigned part_a[kWarpM / 16][4], part_b[2];
#pragma unroll
      for (int i = 0; i < kWarpM / 16; ++i) {
        load_a(part_a[i], &tile_a[(row + 16 * i) * kPitchA + p]);
      }
#pragma unroll
      for (int j = 0; j < kWarpN / 8; ++j) {
        load_b(part_b, &tile_b[p * kPitchB + column + 8 * j]);
#pragma unroll
        for (int i = 0; i < kWarpM / 16; ++i) multiply_add(sums[i][j], part_a[i], part_b);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kWarpM / 16; ++i) {
#pragma unroll
    for (int j = 0; j < kWarpN / 8; ++j) {
      float* own = &c[(row + 16 * i + lane / 4) * n + column + 8 * j + lane % 4 * 2];
      *reinterpret_cast<float2*>(own) = make_float2(sums[i][j][0], sums[i][j][1]);
      *reinterpret_cast<float2*>(own + 8 * n) = make_float2(sums[i][j][2], sums[i][j][3]);
    }
  }
}

}  // namespace

extern "C" int multiply(const __half* a, const __half* b, float* c, std::int64_t m, std::int64_t n,
                        std::int64_t k, void* stream) {
  const dim3 blocks(static_cast<int>(n / kTileN), static_cast<int>(m / kTileM));
  multiply_tiles<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      a, b, c, static_cast<int>(n), static_cast<int>(k));
  return static_cast<int>(cudaGetLastError());
}
