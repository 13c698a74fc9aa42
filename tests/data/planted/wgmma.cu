// c = a b + bias of fp16 arrays by TMA, mbarriers and wgmma (sm_90a), with one planted error by BUG; 0 is right.
// Four warps multiply, one thread of a fifth fills a ring of three stages. TMA needs rows of whole 16 bytes:
// a and b are first copied into rows of whole tiles, with zeros behind their ends.
#include <cstdint>
#include <cuda.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

constexpr int M = 64, N = 64, K = 32, S = 3, CONSUMERS = 128;
constexpr unsigned A_BYTES = M * K * 2, B_BYTES = K * N * 2, STAGE = A_BYTES + B_BYTES;
constexpr std::int64_t ROOM = 1 << 20;

__device__ alignas(128) half staged_a[ROOM], staged_b[ROOM];

struct Matrix {
  const half* at;
  int rows, columns, row_step, column_step;
};

__global__ void stage_padded(Matrix from, half* to, int rows, int pitch) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x, row = at / pitch, column = at % pitch;
  if (row >= rows) return;
  const bool inside = row < from.rows && column < from.columns;
  to[at] = inside ? from.at[row * from.row_step + column * from.column_step] : __float2half(0);
}

__device__ void init(unsigned barrier, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ void arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ void arrive_for_bytes(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

// Returns when the phase of this parity has ended: at once where it is the one before the first.
__device__ void wait(unsigned barrier, unsigned parity) {
  for (unsigned done = 0; !done;)
    asm volatile(
        "{\n\t.reg .pred ended;\n\t"
        "mbarrier.try_wait.parity.shared::cta.b64 ended, [%1], %2;\n\t"
        "selp.u32 %0, 1, 0, ended;\n\t}"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
}

// Copies the box whose first element is at this column and row; its bytes count for the barrier.
__device__ void load(unsigned to, const CUtensorMap* map, int column, int row, unsigned barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];" ::"r"(to), "l"(map), "r"(column), "r"(row), "r"(barrier)
      : "memory");
}

// Describes a tile in shared memory; kind 1: swizzle of 128 bytes, 2: of 64 bytes.
__device__ std::uint64_t describe(unsigned at, unsigned leading, unsigned stride, std::uint64_t kind) {
  return at >> 4 | leading >> 4 << 16 | (std::uint64_t)(stride >> 4) << 32 | kind << 62;
}

#define FOUR(e) "+f"(d[e]), "+f"(d[e + 1]), "+f"(d[e + 2]), "+f"(d[e + 3])

// d = a b, plus d where keep is not 0; in shared memory a has rows along k, and b rows along n.
__device__ void multiply(float (&d)[32], std::uint64_t a, std::uint64_t b, int keep) {
  asm volatile(
      "{\n\t.reg .pred keep;\n\tsetp.ne.b32 keep, %34, 0;\n\t"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
      "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, %32, %33, keep, 1, 1, %35, 1;\n\t}"
      : FOUR(0), FOUR(4), FOUR(8), FOUR(12), FOUR(16), FOUR(20), FOUR(24), FOUR(28)
      : "l"(a), "l"(b), "r"(keep), "n"(BUG == 12));
}

// Long enough for every copy under way to arrive.
__device__ void sleep_long() {
  for (int turn = 0; turn < 20; ++turn) __nanosleep(2000);
}

__device__ void fill(const CUtensorMap* map_a, const CUtensorMap* map_b, unsigned stages, unsigned full,
                     unsigned empty, int tiles) {
  for (int tile = 0; tile < tiles; ++tile) {
    const int s = tile % S, turn = tile / S;
    const unsigned stage = stages + s * STAGE;
    wait(empty + 8 * s, (turn + 1) % 2);
    if (BUG == 4 && turn) sleep_long();
    arrive_for_bytes(full + 8 * s, STAGE);
    load(stage, map_a, tile * K, blockIdx.y * M, full + 8 * s);
    load(stage + A_BYTES, map_b, BUG == 9 ? 0 : blockIdx.x * N, tile * K, full + 8 * s);
  }
  // No copy may be under way when the block ends.
  for (int tile = tiles > S ? tiles - S : 0; tile < tiles; ++tile) wait(full + 8 * (tile % S), tile / S % 2);
}

__device__ void add_products(float (&sum)[32], unsigned stages, unsigned full, unsigned empty, int tiles) {
  for (int tile = 0; tile < tiles - (BUG == 1 && tiles > 1); ++tile) {
    const int s = tile % S;
    // 4: from the second turn on a stage is read with the phase of the turn before, and then waited for.
    const bool is_late = BUG == 4 && tile >= S;
    if (!is_late) wait(full + 8 * s, tile / S % 2);
    if (BUG == 8) {  // the stage is given back before its products are waited for
      arrive(empty + 8 * s);
      if (threadIdx.x < 32 && clock64() / 8 % 2) sleep_long();  // until the stage is filled again, or not
    }
    __syncwarp();
    const unsigned stage = stages + s * STAGE;
    const std::uint64_t a = describe(stage, 2048, 512, 2), b = describe(stage + A_BYTES, 1024, 1024, 1);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int step = 0; step < K / 16; ++step) {
      // 16 of k are 32 bytes of a row of a (12: 16 rows of 64 bytes), and 16 rows of 128 bytes of b.
      const int step_a = BUG == 3 ? 0 : BUG == 12 ? 64 : 2;
      multiply(sum, a + step * step_a, b + step * 128, step || tile > (BUG == 2));
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    if (is_late) wait(full + 8 * s, tile / S % 2);
    if (BUG != 8) arrive(empty + 8 * s);
  }
}

__global__ void __launch_bounds__(CONSUMERS + 32)
    affine_wgmma(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
                 const half* bias, half* c, int m, int n, int tiles) {
  __shared__ alignas(1024) unsigned char ring[S * STAGE];
  __shared__ alignas(8) std::uint64_t barriers[2 * S];
  const unsigned stages = __cvta_generic_to_shared(ring), full = __cvta_generic_to_shared(barriers);
  const unsigned empty = full + 8 * S;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    for (int s = 0; s < S; ++s) init(full + 8 * s, 1), init(empty + 8 * s, CONSUMERS);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  if (warp == CONSUMERS / 32) {
    if (lane == 0) fill(&map_a, &map_b, stages, full, empty, tiles);
    return;
  }
  float sum[32] = {};
  add_products(sum, stages, full, empty, tiles);
#pragma unroll
  for (int e = 0; e < 32; ++e) {
    const int part = BUG == 11 ? 1 - e / 2 % 2 : e / 2 % 2;
    const int row = blockIdx.y * M + warp * 16 + lane / 4 + part * 8;
    // 14: as if a thread had columns side by side.
    const int inner = BUG == 14 ? lane % 4 * 16 + e / 4 * 2 + e % 2 : e / 4 * 8 + lane % 4 * 2 + e % 2;
    const int column = blockIdx.x * N + inner;
    if (row >= m || column >= n) continue;
    const float value = sum[BUG == 5 ? e % 16 : e];
    c[row * n + column] = __float2half(value + __half2float(bias[BUG == 10 ? row % n : column]));
  }
}

bool make_map(CUtensorMap* map, half* at, int rows, int pitch, unsigned box_rows, unsigned box_columns,
              CUtensorMapSwizzle swizzle) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result;
  cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result);
  const auto encode = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(found);
  const cuuint64_t sizes[] = {(cuuint64_t)pitch, (cuuint64_t)rows}, bytes[] = {(cuuint64_t)pitch * 2};
  const cuuint32_t box[] = {box_columns, box_rows}, steps[] = {1, 1};
  return encode && encode(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, at, sizes, bytes, box, steps,
                          CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                          CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

extern "C" int affine(const half* a, const half* b, const half* bias, half* c, std::int64_t m,
                      std::int64_t n, std::int64_t k, void* stream) {
  const std::int64_t across = (n + N - 1) / N, down = (m + M - 1) / M, tiles = (k + K - 1) / K;
  const int rows_a = down * M, pitch_a = tiles * K, rows_b = tiles * K, pitch_b = across * N;
  if (down * M * tiles * K > ROOM || across * N * tiles * K > ROOM) return cudaErrorInvalidValue;
  void *own_a, *own_b;
  if (cudaGetSymbolAddress(&own_a, staged_a) || cudaGetSymbolAddress(&own_b, staged_b))
    return cudaErrorInvalidSymbol;
  CUtensorMap map_a, map_b;
  const auto none = CU_TENSOR_MAP_SWIZZLE_NONE;
  if (!make_map(&map_a, (half*)own_a, rows_a, pitch_a, M, K, BUG == 13 ? none : CU_TENSOR_MAP_SWIZZLE_64B) ||
      !make_map(&map_b, (half*)own_b, rows_b, pitch_b, K, N, BUG == 7 ? none : CU_TENSOR_MAP_SWIZZLE_128B))
    return cudaErrorInvalidValue;
  const cudaStream_t on = (cudaStream_t)stream;
  const Matrix from_a{a, (int)m, (int)k, (int)k, 1};
  const Matrix from_b{b, (int)k, (int)n, BUG == 6 ? 1 : (int)n, BUG == 6 ? (int)k : 1};
  stage_padded<<<(rows_a * pitch_a + 255) / 256, 256, 0, on>>>(from_a, (half*)own_a, rows_a, pitch_a);
  stage_padded<<<(rows_b * pitch_b + 255) / 256, 256, 0, on>>>(from_b, (half*)own_b, rows_b, pitch_b);
  affine_wgmma<<<dim3(across, down), CONSUMERS + 32, 0, on>>>(map_a, map_b, bias, c, m, n, tiles);
  return cudaGetLastError();
}
