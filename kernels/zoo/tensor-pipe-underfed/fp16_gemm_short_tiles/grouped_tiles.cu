// kernel: fp16_gemm_short_tiles/grouped-tiles/cuda
// change: tiles run in groups of eight rows
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kGroups = 2;  // of four warps that multiply
constexpr int kTileM = 64 * kGroups;
constexpr int kTileN = 256;
constexpr int kDepth = 64;
constexpr int kStages = 4;
constexpr int kConsumerWarps = 4 * kGroups;
constexpr int kThreads = 32 * (kConsumerWarps + 1);
constexpr int kBytesA = kTileM * kDepth * 2;
constexpr int kBytesB = kTileN * kDepth * 2;
constexpr int kSharedBytes = kStages * (kBytesA + kBytesB);

__device__ __forceinline__ void init_barrier(unsigned barrier, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ __forceinline__ void arrive_and_expect(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

// Waits until the phase of this parity has ended.
__device__ __forceinline__ void wait_for_phase(unsigned barrier, unsigned parity) {
  unsigned done = 0;
  while (done == 0) {
    asm volatile(
        "{\n.reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
  }
}

// Starts the copy of a box; its bytes count towards the barrier's phase.
__device__ __forceinline__ void copy_box(unsigned tile, const CUtensorMap& map, int column, int row,
                                         unsigned barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
      "[%1, {%2, %3}], [%4];" ::"r"(tile),
      "l"(reinterpret_cast<std::uint64_t>(&map)), "r"(column), "r"(row), "r"(barrier)
      : "memory");
}

// Describes a tile of 128-byte rows with the 128-byte swizzle, 8 rows every 1024 bytes.
__device__ __forceinline__ std::uint64_t describe(unsigned tile) {
  return (static_cast<std::uint64_t>(tile & 0x3FFFF) >> 4) | (1ull << 16) | (64ull << 32) |
         (1ull << 62);
}

#define EIGHT_SUMS(i)                                                                         \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])

// Adds the product of a 64 x 16 and a 256 x 16 tile, both with k as the fast axis.
__device__ __forceinline__ void multiply_add(float (&d)[128], std::uint64_t a, std::uint64_t b) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, "
      "%12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, "
      "%36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, "
      "%60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, "
      "%72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, "
      "%84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
      "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, "
      "%108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, "
      "%120, %121, %122, %123, %124, %125, %126, %127}, "
      "%128, %129, p, 1, 1, 0, 0;\n}"
      : EIGHT_SUMS(0), EIGHT_SUMS(8), EIGHT_SUMS(16), EIGHT_SUMS(24), EIGHT_SUMS(32),
        EIGHT_SUMS(40), EIGHT_SUMS(48), EIGHT_SUMS(56), EIGHT_SUMS(64), EIGHT_SUMS(72),
        EIGHT_SUMS(80), EIGHT_SUMS(88), EIGHT_SUMS(96), EIGHT_SUMS(104), EIGHT_SUMS(112),
        EIGHT_SUMS(120)
      : "l"(a), "l"(b));
}
#undef EIGHT_SUMS

__device__ __forceinline__ void begin_products() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void end_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Waits until at most kPending groups of products are under way.
template <int kPending>
__device__ __forceinline__ void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
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
  for (int p = 0; p < 4; ++p) multiply_add(sums, left + 2 * p, right + 2 * p);
  end_products();
}

// Lane l of warp w holds rows 16w + l / 4 and 8 below, columns 8j + 2 (l % 4) and the next.
__device__ __forceinline__ void store_sums(const float (&sums)[kTileN / 2], __nv_bfloat16* c,
                                           int n) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  c += static_cast<std::int64_t>(16 * warp + lane / 4) * n + lane % 4 * 2;
#pragma unroll
  for (int j = 0; j < kTileN / 8; ++j) {
    auto* own = reinterpret_cast<__nv_bfloat162*>(c + 8 * j);
    *own = __floats2bfloat162_rn(sums[4 * j], sums[4 * j + 1]);
    own = reinterpret_cast<__nv_bfloat162*>(c + 8 * j + 8 * static_cast<std::int64_t>(n));
    *own = __floats2bfloat162_rn(sums[4 * j + 2], sums[4 * j + 3]);
  }
}

__global__ void __launch_bounds__(kThreads)
    multiply_tiles(const __grid_constant__ CUtensorMap map_a,
                   const __grid_constant__ CUtensorMap map_b, __nv_bfloat16* __restrict__ c, int n,
                   int k) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ __align__(8) std::uint64_t barriers[2 * kStages];
  const unsigned tiles = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  const unsigned full = static_cast<unsigned>(__cvta_generic_to_shared(barriers));
  const unsigned empty = full + 8 * kStages;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int steps = k / kDepth;
  const int number = blockIdx.y * gridDim.x + blockIdx.x, of_group = 8 * gridDim.x;
  const int first = number / of_group * 8, within = number % of_group;
  const int height = min(static_cast<int>(gridDim.y) - first, 8);
  const int row = (first + within % height) * kTileM, column = within / height * kTileN;
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      init_barrier(full + 8 * s, 1);
      init_barrier(empty + 8 * s, kConsumerWarps);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  if (warp == kConsumerWarps) {
    if (lane == 0) {
      for (int i = 0; i < steps; ++i) {
        const int s = i % kStages;
        const unsigned tile = tiles + s * (kBytesA + kBytesB);
        wait_for_phase(empty + 8 * s, (i / kStages + 1) % 2);
        arrive_and_expect(full + 8 * s, kBytesA + kBytesB);
        copy_box(tile, map_a, i * kDepth, row, full + 8 * s);
        copy_box(tile + kBytesA, map_b, i * kDepth, column, full + 8 * s);
      }
    }
    return;
  }
  float sums[kTileN / 2] = {};
  pin(sums);
#pragma unroll 1
  for (int i = 0; i < steps; ++i) {
    const int s = i % kStages;
    const unsigned tile = tiles + s * (kBytesA + kBytesB);
    wait_for_phase(full + 8 * s, i / kStages % 2);
    __syncwarp();
    multiply_stage(sums, tile + warp / 4 * 64 * 128, tile + kBytesA);
    wait_for_products<0>();
    if (lane == 0) arrive(empty + 8 * s);
    __syncwarp();
  }
  pin(sums);
  store_sums(sums, c + static_cast<std::int64_t>(row) * n + column, n);
}

// Maps a row-major matrix in boxes of box_rows x kDepth values with the 128-byte swizzle.
bool encode_map(CUtensorMap* map, const __half* data, std::int64_t rows,
                std::int64_t columns, unsigned box_rows) {
  static const auto encode = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result;
    cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault,
                                     &result);
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(found);
  }();
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
  const cuuint64_t pitches[] = {static_cast<cuuint64_t>(columns) * sizeof(__half)};
  const cuuint32_t box[] = {kDepth, box_rows}, every[] = {1, 1};
  return encode != nullptr &&
         encode(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2,
                const_cast<__half*>(data), sizes, pitches, box, every,
                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

}  // namespace

extern "C" int multiply(const __half* a, const __half* b, __nv_bfloat16* c,
                        std::int64_t m, std::int64_t n, std::int64_t k, void* stream) {
  CUtensorMap map_a, map_b;
  if (m % kTileM != 0 || n % kTileN != 0 || k % kDepth != 0 ||
      !encode_map(&map_a, a, m, k, kTileM) || !encode_map(&map_b, b, n, k, kTileN)) {
    return static_cast<int>(cudaErrorInvalidValue);
  }
  cudaFuncSetAttribute(multiply_tiles, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
  const dim3 blocks(static_cast<unsigned>(n / kTileN), static_cast<unsigned>(m / kTileM));
  multiply_tiles<<<blocks, kThreads, kSharedBytes, static_cast<cudaStream_t>(stream)>>>(
      map_a, map_b, c, static_cast<int>(n), static_cast<int>(k));
  return static_cast<int>(cudaGetLastError());
}
