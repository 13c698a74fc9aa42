// kernel: half_gemm_warp_mma/before/cuda
// flaw: products of single warps, whose fragments pass through registers
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kTileM = 128;
constexpr int kTileN = 128;
constexpr int kDepth = 64;
constexpr int kWarpM = 64;
constexpr int kWarpN = 32;
constexpr int kStages = 2;
constexpr int kBytesA = kTileM * kDepth * 2;
constexpr int kBytesB = kTileN * kDepth * 2;
constexpr int kSharedBytes = kStages * (kBytesA + kBytesB);

__device__ __forceinline__ void copy_16_bytes(unsigned target, const void* source) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(target), "l"(source) : "memory");
}

__device__ __forceinline__ void end_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most kPending of this thread's copy groups are under way.
template <int kPending>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Copies kRows rows of 64 values; the 16-byte chunks of a row are permuted by its number.
template <int kRows>
__device__ __forceinline__ void load_tile(unsigned tile, const __half* source,
                                          std::int64_t stride) {
#pragma unroll
  for (int first = 0; first < kRows * 8; first += kThreads) {
    const int i = first + static_cast<int>(threadIdx.x);
    const int row = i / 8, chunk = i % 8;
    copy_16_bytes(tile + row * 128 + (chunk ^ row % 8) * 16, source + row * stride + chunk * 8);
  }
}

__device__ __forceinline__ void multiply_add(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                                             unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Loads four 8 x 8 parts; each lane names one row of 16 bytes.
__device__ __forceinline__ void load_parts(unsigned (&part)[4], unsigned tile, int row, int chunk) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(part[0]), "=r"(part[1]), "=r"(part[2]), "=r"(part[3])
               : "r"(tile + row * 128 + (chunk ^ row % 8) * 16)
               : "memory");
}

__global__ void __launch_bounds__(kThreads)
    multiply_tiles(const __half* __restrict__ a, const __half* __restrict__ b,
                   __half* __restrict__ c, int n, int k) {
  extern __shared__ __align__(1024) unsigned char shared[];
  const unsigned tiles = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row = warp / 4 * kWarpM, column = warp % 4 * kWarpN;
  a += static_cast<std::int64_t>(blockIdx.y) * kTileM * k;
  b += static_cast<std::int64_t>(blockIdx.x) * kTileN * k;
  c += static_cast<std::int64_t>(blockIdx.y) * kTileM * n + blockIdx.x * kTileN;

  const int steps = k / kDepth;
  auto load_stage = [&](int i) {
    const unsigned tile = tiles + i % kStages * (kBytesA + kBytesB);
    load_tile<kTileM>(tile, a + i * kDepth, k);
    load_tile<kTileN>(tile + kBytesA, b + i * kDepth, k);
    end_group();
  };

  float sums[kWarpM / 16][kWarpN / 8][4] = {};
  load_stage(0);
#pragma unroll 1
  for (int i = 0; i < steps; ++i) {
    wait_for_copies<0>();
    __syncthreads();
    if (i + 1 < steps) load_stage(i + 1);
    const unsigned tile_a = tiles + i % kStages * (kBytesA + kBytesB), tile_b = tile_a + kBytesA;
#pragma unroll
    for (int p = 0; p < kDepth / 16; ++p) {
      unsigned part_a[kWarpM / 16][4], part_b[kWarpN / 16][4];
#pragma unroll
      for (int y = 0; y < kWarpM / 16; ++y) {
        load_parts(part_a[y], tile_a, row + 16 * y + lane % 16, 2 * p + lane / 16);
      }
#pragma unroll
      for (int x = 0; x < kWarpN / 16; ++x) {
        load_parts(part_b[x], tile_b, column + 16 * x + lane / 16 * 8 + lane % 8,
                   2 * p + lane / 8 % 2);
      }
#pragma unroll
      for (int y = 0; y < kWarpM / 16; ++y) {
#pragma unroll
        for (int x = 0; x < kWarpN / 8; ++x) {
          const unsigned (&own)[4] = part_b[x / 2];
          multiply_add(sums[y][x], part_a[y], own[x % 2 * 2], own[x % 2 * 2 + 1]);
        }
      }
    }
  }
#pragma unroll
  for (int y = 0; y < kWarpM / 16; ++y) {
    __half* line = c + static_cast<std::int64_t>(row + 16 * y + lane / 4) * n + column;
#pragma unroll
    for (int x = 0; x < kWarpN / 8; ++x) {
      __half* own = line + 8 * x + lane % 4 * 2;
      *reinterpret_cast<__half2*>(own) = __floats2half2_rn(sums[y][x][0], sums[y][x][1]);
      own += 8 * static_cast<std::int64_t>(n);
      *reinterpret_cast<__half2*>(own) = __floats2half2_rn(sums[y][x][2], sums[y][x][3]);
    }
  }
}

}  // namespace

extern "C" int multiply(const __half* a, const __half* b, __half* c, std::int64_t m, std::int64_t n,
                        std::int64_t k, void* stream) {
  cudaFuncSetAttribute(multiply_tiles, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
  const dim3 blocks(static_cast<unsigned>(n / kTileN), static_cast<unsigned>(m / kTileM));
  multiply_tiles<<<blocks, kThreads, kSharedBytes, static_cast<cudaStream_t>(stream)>>>(
      a, b, c, static_cast<int>(n), static_cast<int>(k));
  return static_cast<int>(cudaGetLastError());
}
