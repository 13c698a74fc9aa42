// kernel: half_gemm_warp_mma/after/cuda
// change: products of whole warpgroups, which read both tiles from shared memory
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kTileM = 128;
constexpr int kTileN = 128;
constexpr int kDepth = 64;
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

// Shows this thread's shared stores to the tensor cores, which read past the usual path.
__device__ __forceinline__ void publish_tile() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
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

// Describes a tile of 128-byte rows with the 128-byte swizzle, 8 rows every 1024 bytes.
__device__ __forceinline__ std::uint64_t describe(unsigned tile) {
  return (static_cast<std::uint64_t>(tile & 0x3FFFF) >> 4) | (1ull << 16) | (64ull << 32) |
         (1ull << 62);
}

#define EIGHT_SUMS(i)                                                                         \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])

// Adds the product of a 64 x 16 and a 128 x 16 tile, both with k as the fast axis.
__device__ __forceinline__ void multiply_add(float (&d)[64], std::uint64_t a, std::uint64_t b) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, p, 1, 1, 0, 0;\n}"
      : EIGHT_SUMS(0), EIGHT_SUMS(8), EIGHT_SUMS(16), EIGHT_SUMS(24), EIGHT_SUMS(32),
        EIGHT_SUMS(40), EIGHT_SUMS(48), EIGHT_SUMS(56)
      : "l"(a), "l"(b));
}
#undef EIGHT_SUMS

__device__ __forceinline__ void begin_products() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void end_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

// Keeps the compiler from moving uses of the sums across this point.
template <int kCount>
__device__ __forceinline__ void pin(float (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

__device__ __forceinline__ void multiply_stage(float (&sums)[kTileN / 2], unsigned a, unsigned b) {
  const std::uint64_t left = describe(a), right = describe(b);
  begin_products();
#pragma unroll
  for (int p = 0; p < kDepth / 16; ++p) multiply_add(sums, left + 2 * p, right + 2 * p);
  end_products();
}

// Lane l of warp w holds rows 16w + l / 4 and 8 below, columns 8j + 2 (l % 4) and the next.
__device__ __forceinline__ void store_sums(const float (&sums)[kTileN / 2], __half* c, int n) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  c += static_cast<std::int64_t>(16 * warp + lane / 4) * n + lane % 4 * 2;
#pragma unroll
  for (int j = 0; j < kTileN / 8; ++j) {
    __half2* own = reinterpret_cast<__half2*>(c + 8 * j);
    *own = __floats2half2_rn(sums[4 * j], sums[4 * j + 1]);
    own = reinterpret_cast<__half2*>(c + 8 * j + 8 * static_cast<std::int64_t>(n));
    *own = __floats2half2_rn(sums[4 * j + 2], sums[4 * j + 3]);
  }
}

__global__ void __launch_bounds__(kThreads)
    multiply_tiles(const __half* __restrict__ a, const __half* __restrict__ b,
                   __half* __restrict__ c, int n, int k) {
  extern __shared__ __align__(1024) unsigned char shared[];
  const unsigned tiles = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  const int group = threadIdx.x / 128;
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

  float sums[kTileN / 2] = {};
  pin(sums);
  load_stage(0);
#pragma unroll 1
  for (int i = 0; i < steps; ++i) {
    wait_for_copies<0>();
    publish_tile();
    __syncthreads();
    if (i + 1 < steps) load_stage(i + 1);
    const unsigned tile_a = tiles + i % kStages * (kBytesA + kBytesB), tile_b = tile_a + kBytesA;
    multiply_stage(sums, tile_a + group * 64 * 128, tile_b);
    wait_for_products();
  }
  pin(sums);
  store_sums(sums, c, n);
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
