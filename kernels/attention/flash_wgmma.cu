// kernel: attention_bf16, attention_fp16/flash-wgmma/cuda
// shapes: q (bh, seq, dim), k (bh, seq, dim), v (bh, seq, dim) -> o (bh, seq, dim), all contiguous, 16-byte aligned, float16, or bfloat16 with ELEMENT_BF16; bh >= 0, seq >= 0, dim 64 or 128; causal 0 or 1; scores finite
// launch: grid min(bh * ceil(seq / BLOCK_M), multiprocessors * BLOCKS), without PERSISTENT bh * ceil(seq / BLOCK_M); block 32 * NUM_WARPS + 128: NUM_WARPS consumer warps, and 128 threads of which two start copies
// shared: dynamic; 2 * dim * (BLOCK_M * (own ? 2 : 1) + 2 * STAGES * BLOCK_N) + 512 * (NUM_WARPS / 4 - BLOCK_M / 64) * (dim / 2 + 4) + 32 * STAGES + BLOCK_M / 4 B; own where PERSISTENT and it fits; defaults 131264 B (dim 64), 166032 B (dim 64, few queries), 196704 B (dim 128), above 48 KiB by opt-in
// work: algorithm 8 B per element of q and 4 dim FLOP per score, half the scores if causal; k and v read once per BLOCK_M queries, one exp2 per score
// roof: tensor cores at dim 128; at dim 64 the exponentials (16 a clock and multiprocessor) take as long as the products
// tolerance: by the reference's own error in the element type, see kernel.yaml
// measured: 797 us at b4-h16-s4096-d128, session 2026-11-26-attention-half
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>
#include <cstdint>

// Registers: 65536 / (block * BLOCKS) rounded down to 8 at the start (168 for 8 warps, 128 for 12, 96 for 16), then 24 in producers and 240, 160, 112 in consumers; those need about dim / 2 + BLOCK_N / 2 + (OVERLAP ? BLOCK_N / 4 : 0) + 24.
// Tunables; 0 takes what is best for the head dimension, and at dim 64 for the number of queries.
#ifndef BLOCK_M  // queries of a block: 64, 128, 192 or 256
#define BLOCK_M 0
#endif
#ifndef BLOCK_N  // keys of a step
#define BLOCK_N 0
#endif
#ifndef STAGES  // steps whose keys and values lie in shared memory
#define STAGES 0
#endif
#ifndef NUM_WARPS  // BLOCK_M / 16, or a multiple: then warpgroups share queries and split the keys
#define NUM_WARPS 0
#endif
#ifndef BLOCKS  // blocks of a multiprocessor that the registers are shared out for
#define BLOCKS 1
#endif
#ifndef PINGPONG  // 1: warpgroups take turns at the tensor cores
#define PINGPONG 1
#endif
#ifndef OVERLAP  // 1: the next scores are computed before these weights meet the values
#define OVERLAP 1
#endif
#ifndef PERSISTENT  // 1: one block per multiprocessor walks many tiles
#define PERSISTENT 1
#endif
#ifndef SWIZZLE  // bytes of a row of a shared tile: 128 or 64
#define SWIZZLE 128
#endif
#ifndef LATE  // with OVERLAP: quarters of the exponentials before the wait for the last outputs
#define LATE -1
#endif
#ifndef DEPENDENT  // 1: the grid may start while the kernel before it in the stream ends
#define DEPENDENT 0
#endif
#ifndef PRODUCER_REGISTERS
#define PRODUCER_REGISTERS 24
#endif

#ifdef ELEMENT_BF16
#define ELEMENT_NAME "bf16"
#else
#define ELEMENT_NAME "f16"
#endif

namespace {

#ifdef ELEMENT_BF16
constexpr CUtensorMapDataType kElement = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
#else
constexpr CUtensorMapDataType kElement = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
#endif
constexpr unsigned kFullMask = 0xffffffffu;
constexpr std::int64_t kMaxBlocks = 2147483647;
constexpr int kSharedLimit = 232448;  // of a block; a multiprocessor has 233472 and keeps 1024 each
constexpr int kGroup = 128;           // threads of a warpgroup
constexpr int kRows = 64;             // queries of a warpgroup

// A trial of kb tune has one head dimension, and is compiled for it alone.
#ifdef DIM
constexpr int kOnlyDim = DIM;
#else
constexpr int kOnlyDim = 0;
#endif
constexpr bool kGiven = BLOCK_M != 0 || BLOCK_N != 0 || STAGES != 0 || NUM_WARPS != 0;

constexpr int chosen(int given, int usual) { return given != 0 ? given : usual; }
constexpr int smaller(int x, int y) { return x < y ? x : y; }

// kFew: too few queries for tiles of 256 to occupy every multiprocessor.
template <int kDimension, bool kFew = false>
struct Config {
  static constexpr int kDim = kDimension;
  static constexpr bool kWide = kDim == 64 && !kFew;
  static constexpr int kBlockM = chosen(BLOCK_M, kWide ? 256 : kFew ? 64 : 128);
  static constexpr int kBlockN = chosen(BLOCK_N, kWide ? 64 : 128);
  static constexpr int kStages = chosen(STAGES, kDim == 64 ? 4 : 2);
  static constexpr int kWarps = chosen(NUM_WARPS, kBlockM / 16 * (kFew && BLOCK_M == 0 ? 2 : 1));
  static constexpr int kGroups = kBlockM / kRows;
  static constexpr int kSplit = kWarps / (kGroups * 4);
  static constexpr int kThreads = kWarps * 32 + kGroup;
  static_assert(kBlockM % kRows == 0 && kWarps % (kGroups * 4) == 0);
  static_assert(kStages % kSplit == 0, "each split has stages of its own");

  // The registers that the block starts with are shared out anew: few to the producers.
  static constexpr int kProducerRegisters = PRODUCER_REGISTERS;
  static constexpr int kStartRegisters = smaller(248, 65536 / (kThreads * BLOCKS) / 8 * 8);
  static constexpr int kConsumerRegisters = smaller(
      240, (kStartRegisters * kThreads - kProducerRegisters * kGroup) / (kWarps * 32) / 8 * 8);

  static constexpr int kScores = kBlockN / 2;  // of a thread
  static constexpr int kOutputs = kDim / 2;
  static constexpr int kLate = kScores / 4 * (LATE >= 0 ? LATE : kDim == 64 ? 0 : 2);
  static constexpr int kColumns = SWIZZLE / 2;  // elements of a row of a shared tile
  static constexpr int kChunks = kDim / kColumns;
  static constexpr bool kPingPong = PINGPONG != 0 && kGroups > 1 && kSplit == 1;

  static constexpr int kQueryBytes = kRows * kDim * 2;  // of a warpgroup
  static constexpr int kKeyBytes = kBlockN * kDim * 2;  // of a stage
  static constexpr int kMergeFloats = kOutputs + 4;     // of a thread
  static constexpr int kMergeBytes = (kSplit - 1) * kGroups * kMergeFloats * kGroup * 4;
  static constexpr int kBarriers = 4 * kStages + 2 * kGroups;
  static constexpr int kLeast = kGroups * kQueryBytes + 2 * kStages * kKeyBytes + kMergeBytes +
                                8 * kBarriers;
  // Outputs leave through a tile of their own where there is room, so that the next queries need
  // not wait for them, else through the queries' tile.
  static constexpr bool kOwnOutput =
      PERSISTENT != 0 &&
      (kLeast + kGroups * kQueryBytes + 1024) * BLOCKS <= kSharedLimit + 1024;
  static constexpr int kKeysAt = kGroups * kQueryBytes;
  static constexpr int kValuesAt = kKeysAt + kStages * kKeyBytes;
  static constexpr int kOutputAt = kOwnOutput ? kValuesAt + kStages * kKeyBytes : 0;
  static constexpr int kMergeAt =
      kValuesAt + kStages * kKeyBytes + (kOwnOutput ? kGroups * kQueryBytes : 0);
  static constexpr int kBarriersAt = kMergeAt + kMergeBytes;
  static constexpr int kBytes = kBarriersAt + 8 * kBarriers;
  // Outputs, scores, with OVERLAP weights beside them, and about 24 more.
  static constexpr int kRegisters = kOutputs + kScores + (OVERLAP ? kScores / 2 : 0) + 24;
  static constexpr bool kFits =
      (kBytes + 1024) * BLOCKS <= kSharedLimit + 1024 && kRegisters <= kConsumerRegisters;
};

struct Problem {
  int seq;
  int tiles_per_head;
  int tiles;
  int causal;
};

// A tile: its head, its first query, and how many steps of keys its queries see.
struct Tile {
  int head;
  int query0;
  int steps;
};

template <class C>
__device__ __forceinline__ Tile tile_at(const Problem& problem, int index) {
  Tile tile;
  tile.head = index / problem.tiles_per_head;
  int place = index - tile.head * problem.tiles_per_head;
  // The longest first.
  if (problem.causal) place = problem.tiles_per_head - 1 - place;
  tile.query0 = place * C::kBlockM;
  const int keys = problem.causal ? min(problem.seq, tile.query0 + C::kBlockM) : problem.seq;
  tile.steps = (keys + C::kBlockN - 1) / C::kBlockN;
  return tile;
}

// ---- barriers and copies

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

// Waits until the phase of this parity has ended; a fresh barrier counts as past parity 1.
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

__device__ __forceinline__ void named_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

__device__ __forceinline__ void named_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

__device__ __forceinline__ void load_box(unsigned target, const CUtensorMap* map, int column,
                                         int row, int head, unsigned barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
      "[%1, {%2, %3, %4}], [%5];" ::"r"(target),
      "l"(reinterpret_cast<std::uint64_t>(map)), "r"(column), "r"(row), "r"(head), "r"(barrier)
      : "memory");
}

__device__ __forceinline__ void store_box(unsigned source, const CUtensorMap* map, int column,
                                          int row, int head) {
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(
          reinterpret_cast<std::uint64_t>(map)),
      "r"(column), "r"(row), "r"(head), "r"(source)
      : "memory");
}

__device__ __forceinline__ void end_stores() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Until the stores have read shared memory.
__device__ __forceinline__ void wait_for_stores() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

// A place in the ring of stages.
template <class C>
struct Place {
  int stage;
  unsigned parity;
  __device__ __forceinline__ explicit Place(unsigned step)
      : stage(step % C::kStages), parity(step / C::kStages % 2) {}
  __device__ __forceinline__ void advance(int steps) {
    stage += steps;
    if (stage >= C::kStages) {
      stage -= C::kStages;
      parity ^= 1;
    }
  }
};

template <class C>
struct Barriers {
  unsigned first;
  static constexpr int kRing = 8 * C::kStages;
  __device__ unsigned keys_full(int stage) const { return first + 8 * stage; }
  __device__ unsigned keys_empty(int stage) const { return first + kRing + 8 * stage; }
  __device__ unsigned values_full(int stage) const { return first + 2 * kRing + 8 * stage; }
  __device__ unsigned values_empty(int stage) const { return first + 3 * kRing + 8 * stage; }
  __device__ unsigned queries_full(int group) const { return first + 4 * kRing + 8 * group; }
  __device__ unsigned queries_empty(int group) const {
    return first + 4 * kRing + 8 * (C::kGroups + group);
  }
  __device__ __forceinline__ void init() const {
    for (int s = 0; s < C::kStages; ++s) {
      init_barrier(keys_full(s), 1);
      init_barrier(values_full(s), 1);
      // One part of the split reads a stage, by each of its warpgroups.
      init_barrier(keys_empty(s), 4 * C::kGroups);
      init_barrier(values_empty(s), 4 * C::kGroups);
    }
    for (int g = 0; g < C::kGroups; ++g) {
      init_barrier(queries_full(g), 1);
      init_barrier(queries_empty(g), 4 * C::kSplit);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
};

// ---- products of warpgroups

#define LIST_32                                                                               \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, " \
  "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define LIST_40 LIST_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define LIST_48 LIST_40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define LIST_56 LIST_48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define LIST_64 LIST_56 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define LIST_72 LIST_64 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define LIST_80 LIST_72 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define LIST_88 LIST_80 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define SUMS_8(i)                                                                             \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define SUMS_32 SUMS_8(0), SUMS_8(8), SUMS_8(16), SUMS_8(24)
#define SUMS_40 SUMS_32, SUMS_8(32)
#define SUMS_48 SUMS_40, SUMS_8(40)
#define SUMS_56 SUMS_48, SUMS_8(48)
#define SUMS_64 SUMS_56, SUMS_8(56)
#define SUMS_72 SUMS_64, SUMS_8(64)
#define SUMS_80 SUMS_72, SUMS_8(72)
#define SUMS_88 SUMS_80, SUMS_8(80)

// Products with ``kSums`` sums per thread. keys: d = a b (kScale 0) or d + a b (1), both operands in
// shared memory with k as the fast axis. values: the same with a in registers and n as the fast axis
// of b.
template <int kSums>
struct Product;

#define PRODUCT(n, sums, a, b, c, e, y, z)                                                       \
  template <>                                                                                    \
  struct Product<sums> {                                                                         \
    template <int kScale>                                                                        \
    static __device__ __forceinline__ void keys(float (&d)[sums], std::uint64_t left,            \
                                                std::uint64_t right) {                           \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #c ", 0;\n"                              \
                   "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." ELEMENT_NAME                \
                   "." ELEMENT_NAME " {" LIST_##sums "}, %" #a ", %" #b ", p, 1, 1, 0, 0;\n}"    \
                   : SUMS_##sums                                                                 \
                   : "l"(left), "l"(right), "n"(kScale));                                        \
    }                                                                                            \
    template <int kScale>                                                                        \
    static __device__ __forceinline__ void values(float (&d)[sums], const unsigned* left,        \
                                                  std::uint64_t right) {                         \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #z ", 0;\n"                              \
                   "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." ELEMENT_NAME                \
                   "." ELEMENT_NAME " {" LIST_##sums "}, {%" #a ", %" #b ", %" #c ", %" #e       \
                   "}, %" #y ", p, 1, 1, 1;\n}"                                                  \
                   : SUMS_##sums                                                                 \
                   : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right),        \
                     "n"(kScale));                                                               \
    }                                                                                            \
  };
PRODUCT(64, 32, 32, 33, 34, 35, 36, 37)
PRODUCT(80, 40, 40, 41, 42, 43, 44, 45)
PRODUCT(96, 48, 48, 49, 50, 51, 52, 53)
PRODUCT(128, 64, 64, 65, 66, 67, 68, 69)
PRODUCT(176, 88, 88, 89, 90, 91, 92, 93)

__device__ __forceinline__ void begin_products() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void end_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int kLeft>
__device__ __forceinline__ void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
}

// Keeps the compiler from moving uses of the registers across this point.
template <int kCount>
__device__ __forceinline__ void pin(float (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

template <int kCount>
__device__ __forceinline__ void pin(unsigned (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(d[i])::"memory");
}

// Describes a swizzled tile: 8 rows every 8 * SWIZZLE bytes; ``chunk`` bytes between neighbouring
// sets of columns, which matters only where the columns are not k.
__device__ __forceinline__ std::uint64_t describe(unsigned tile, unsigned chunk) {
  constexpr std::uint64_t kKind = SWIZZLE == 128 ? 1 : 2;
  constexpr std::uint64_t kEightRows = 8 * SWIZZLE / 16;
  return (static_cast<std::uint64_t>(tile & 0x3FFFF) >> 4) |
         (static_cast<std::uint64_t>(chunk / 16) << 16) | (kEightRows << 32) | (kKind << 62);
}

template <class C>
__device__ __forceinline__ void multiply_keys(float (&scores)[C::kScores], std::uint64_t queries,
                                              std::uint64_t keys) {
#pragma unroll
  for (int k = 0; k < C::kDim; k += 16) {
    const int chunk = k / C::kColumns, byte = k % C::kColumns * 2;
    const std::uint64_t x = queries + (chunk * kRows * SWIZZLE + byte) / 16;
    const std::uint64_t y = keys + (chunk * C::kBlockN * SWIZZLE + byte) / 16;
    if (k == 0) {
      Product<C::kScores>::template keys<0>(scores, x, y);
    } else {
      Product<C::kScores>::template keys<1>(scores, x, y);
    }
  }
  end_products();
}

template <class C>
__device__ __forceinline__ void multiply_values(float (&outputs)[C::kOutputs],
                                                const unsigned (&weights)[C::kScores / 2],
                                                std::uint64_t values) {
#pragma unroll
  for (int k = 0; k < C::kBlockN; k += 16) {
    Product<C::kOutputs>::template values<1>(outputs, weights + k / 4, values + k * SWIZZLE / 16);
  }
  end_products();
}

// ---- softmax

__device__ __forceinline__ float exp2_unit(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ unsigned pack(float low, float high) {
  unsigned both;
  asm("cvt.rn." ELEMENT_NAME "x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}

// Of four neighbouring lanes, which share two rows.
__device__ __forceinline__ float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(kFullMask, x, 1));
  return fmaxf(x, __shfl_xor_sync(kFullMask, x, 2));
}

__device__ __forceinline__ float quad_sum(float x) {
  x += __shfl_xor_sync(kFullMask, x, 1);
  return x + __shfl_xor_sync(kFullMask, x, 2);
}

// log2(e) / sqrt(dim): the scores become powers of two.
template <class C>
constexpr float kScale = 1.4426950408889634f * (C::kDim == 64 ? 0.125f : 0.08838834764831845f);

// What a thread knows of its two rows, l / 4 and 8 below of its warp's 16: the largest score so
// far, its own share of the sum of weights, the factor that brings older sums to that score, and
// what weights are relative to.
struct Rows {
  float most[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0.0f, 0.0f};
  float shrink[2] = {1.0f, 1.0f};
  float base[2] = {0.0f, 0.0f};
};

// Follows the largest score.
template <class C>
__device__ __forceinline__ void follow(const float (&s)[C::kScores], Rows& rows) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float even = rows.most[r], odd = s[2 * r + 1];
#pragma unroll
    for (int i = 0; i < C::kScores; i += 4) {
      even = fmaxf(even, s[i + 2 * r]);
      odd = fmaxf(odd, s[i + 2 * r + 1]);
    }
    const float most = quad_max(fmaxf(even, odd));
    // A split may see none of a row's keys.
    const bool none = C::kSplit > 1 && most == -INFINITY;
    rows.base[r] = none ? 0.0f : most * kScale<C>;
    rows.shrink[r] = exp2_unit(rows.most[r] * kScale<C> - rows.base[r]);
    rows.most[r] = most;
    rows.sum[r] *= rows.shrink[r];
  }
}

// Turns the scores from kFrom to kTo into weights.
template <class C, int kFrom, int kTo>
__device__ __forceinline__ void weigh(float (&s)[C::kScores], Rows& rows) {
  float more[2] = {0.0f, 0.0f};
#pragma unroll
  for (int i = kFrom; i < kTo; ++i) {
    const int r = i / 2 % 2;
    s[i] = exp2_unit(fmaf(s[i], kScale<C>, -rows.base[r]));
    if (i % 2 == 0) {
      rows.sum[r] += s[i];
    } else {
      more[r] += s[i];
    }
  }
  if (kFrom < kTo) {
    rows.sum[0] += more[0];
    rows.sum[1] += more[1];
  }
}

// A store that never happens, for a sum of weights is not negative: it keeps the assembler from
// moving the next wait ahead of the exponentials.
__device__ __forceinline__ void stay_before(float sum, unsigned shared) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.lt.f32 p, %0, 0f00000000;\n@p st.shared.f32 [%1], %0;\n}" ::"f"(sum),
      "r"(shared)
      : "memory");
}

template <class C>
__device__ __forceinline__ void shrink(float (&outputs)[C::kOutputs], const Rows& rows) {
#pragma unroll
  for (int i = 0; i < C::kOutputs; ++i) outputs[i] *= rows.shrink[i / 2 % 2];
}

template <class C>
__device__ __forceinline__ void round_weights(unsigned (&weights)[C::kScores / 2],
                                              const float (&s)[C::kScores]) {
#pragma unroll
  for (int i = 0; i < C::kScores / 2; ++i) weights[i] = pack(s[2 * i], s[2 * i + 1]);
}

// Hides the keys past the last that a row sees. last[r]: that key, counted from this thread's
// first column.
template <class C>
__device__ __forceinline__ void hide(float (&s)[C::kScores], const int (&last)[2]) {
#pragma unroll
  for (int i = 0; i < C::kScores; ++i) {
    if (i / 4 * 8 + i % 2 > last[i / 2 % 2]) s[i] = -INFINITY;
  }
}

// ---- roles

template <class C>
__device__ __forceinline__ void load_queries(const CUtensorMap* q, unsigned shared,
                                             const Problem& problem) {
  const Barriers<C> barriers{shared + C::kBarriersAt};
  unsigned parity = 1;
  for (int index = blockIdx.x; index < problem.tiles; index += gridDim.x) {
    const Tile tile = tile_at<C>(problem, index);
    for (int g = 0; g < C::kGroups; ++g) {
      wait_for_phase(barriers.queries_empty(g), parity);
      arrive_and_expect(barriers.queries_full(g), C::kQueryBytes);
      for (int c = 0; c < C::kChunks; ++c) {
        load_box(shared + g * C::kQueryBytes + c * kRows * SWIZZLE, q, c * C::kColumns,
                 tile.query0 + g * kRows, tile.head, barriers.queries_full(g));
      }
    }
    parity ^= 1;
  }
}

template <class C>
__device__ __forceinline__ void load_step(const CUtensorMap* map, unsigned target, int key0,
                                          int head, unsigned full, unsigned empty,
                                          unsigned parity) {
  wait_for_phase(empty, parity ^ 1);
  arrive_and_expect(full, C::kKeyBytes);
  for (int c = 0; c < C::kChunks; ++c) {
    load_box(target + c * C::kBlockN * SWIZZLE, map, c * C::kColumns, key0, head, full);
  }
}

template <class C>
__device__ __forceinline__ void load_keys_and_values(const CUtensorMap* k, const CUtensorMap* v,
                                                     unsigned shared, const Problem& problem) {
  const Barriers<C> barriers{shared + C::kBarriersAt};
  Place<C> at(0);
  for (int index = blockIdx.x; index < problem.tiles; index += gridDim.x) {
    const Tile tile = tile_at<C>(problem, index);
    for (int step = 0; step < tile.steps; ++step) {
      const int s = at.stage, key0 = step * C::kBlockN;
      load_step<C>(k, shared + C::kKeysAt + s * C::kKeyBytes, key0, tile.head,
                   barriers.keys_full(s), barriers.keys_empty(s), at.parity);
      load_step<C>(v, shared + C::kValuesAt + s * C::kKeyBytes, key0, tile.head,
                   barriers.values_full(s), barriers.values_empty(s), at.parity);
      at.advance(1);
    }
  }
}

// Adds what the other parts of a split found to the first part's.
template <class C>
__device__ __forceinline__ void merge(float (&outputs)[C::kOutputs], Rows& rows, float* memory,
                                      int group, int part) {
  const int thread = threadIdx.x % kGroup;
  const int barrier = 1 + C::kGroups + group;
  const auto slot = [&](int other, int i) -> float& {
    const int set = group * (C::kSplit - 1) + other - 1;
    return memory[(set * C::kMergeFloats + i) * kGroup + thread];
  };
  if (part > 0) {
#pragma unroll
    for (int i = 0; i < C::kOutputs; ++i) slot(part, i) = outputs[i];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      slot(part, C::kOutputs + r) = rows.most[r];
      slot(part, C::kOutputs + 2 + r) = rows.sum[r];
    }
  }
  named_sync(barrier, kGroup * C::kSplit);
  if (part == 0) {
#pragma unroll
    for (int other = 1; other < C::kSplit; ++other) {
      float theirs[2];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float found = slot(other, C::kOutputs + r);
        const float most = fmaxf(rows.most[r], found);
        rows.shrink[r] = exp2_unit((rows.most[r] - most) * kScale<C>);
        theirs[r] = exp2_unit((found - most) * kScale<C>);
        rows.most[r] = most;
        rows.sum[r] = rows.sum[r] * rows.shrink[r] + slot(other, C::kOutputs + 2 + r) * theirs[r];
      }
#pragma unroll
      for (int i = 0; i < C::kOutputs; ++i) {
        const int r = i / 2 % 2;
        outputs[i] = outputs[i] * rows.shrink[r] + slot(other, i) * theirs[r];
      }
    }
  }
  // The next tile's must not be written before these are read.
  if (PERSISTENT) named_sync(barrier, kGroup * C::kSplit);
}

// Writes a warp's 16 rows of outputs to its part of a swizzled tile and starts their store.
template <class C>
__device__ __forceinline__ void store_outputs(float (&outputs)[C::kOutputs], const Rows& rows,
                                              const CUtensorMap* o, unsigned tile, int row,
                                              int head) {
  const int lane = threadIdx.x % 32;
  const float inverse[2] = {1.0f / quad_sum(rows.sum[0]), 1.0f / quad_sum(rows.sum[1])};
  // Four 8 x 8 matrices at a time, of rows 0-7 and 8-15 and 16 columns; a lane holds an address.
  constexpr int kPacks = SWIZZLE / 16;  // of 16 bytes in a row of the tile
  const int own = lane % 16, turn = SWIZZLE == 128 ? own % 8 : own / 2 % 4;
#pragma unroll
  for (int i = 0; i < C::kOutputs / 8; ++i) {
    unsigned both[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      both[j] = pack(outputs[8 * i + 2 * j] * inverse[j % 2],
                     outputs[8 * i + 2 * j + 1] * inverse[j % 2]);
    }
    const int column = 2 * i + lane / 16;
    const unsigned address = tile + 2 * i / kPacks * kRows * SWIZZLE + own * SWIZZLE +
                             (column % kPacks ^ turn) * 16;
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
                 "r"(both[0]), "r"(both[1]), "r"(both[2]), "r"(both[3])
                 : "memory");
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncwarp();
  if (lane == 0) {
    for (int c = 0; c < C::kChunks; ++c) {
      store_box(tile + c * kRows * SWIZZLE, o, c * C::kColumns, row, head);
    }
    end_stores();
  }
}

template <class C>
__device__ __forceinline__ void attend(const CUtensorMap* o, unsigned char* memory, unsigned shared,
                                       const Problem& problem) {
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x % kGroup / 32;
  const int place = __shfl_sync(kFullMask, threadIdx.x / kGroup - 1, 0);
  const int group = place / C::kSplit, part = place % C::kSplit;
  const Barriers<C> barriers{shared + C::kBarriersAt};
  const auto release = [&](unsigned barrier) {
    if (lane == 0) arrive(barrier);
  };
  // Turns at the tensor cores go round the warpgroups; the last one gives the first its turn.
  constexpr int kTurn = 1 + C::kGroups;
  const auto take_turn = [&] {
    if (C::kPingPong) named_sync(kTurn + group, 2 * kGroup);
  };
  const auto pass_turn = [&] {
    if (C::kPingPong) {
      named_arrive(kTurn + (group + 1 == C::kGroups ? 0 : group + 1), 2 * kGroup);
    }
  };
  if (C::kPingPong && group + 1 == C::kGroups) named_arrive(kTurn, 2 * kGroup);

  const std::uint64_t queries = describe(shared + group * C::kQueryBytes, 16);
  const std::uint64_t keys = describe(shared + C::kKeysAt, 16);
  const std::uint64_t values = describe(shared + C::kValuesAt, C::kBlockN * SWIZZLE);
  constexpr unsigned kStride = C::kKeyBytes / 16;

  float outputs[C::kOutputs], scores[C::kScores];
  unsigned weights[C::kScores / 2];
  unsigned queries_parity = 0, first_step = 0;
  for (int index = blockIdx.x; index < problem.tiles; index += gridDim.x) {
    const Tile tile = tile_at<C>(problem, index);
    const int row0 = tile.query0 + group * kRows;
    const int row = row0 + warp * 16 + lane / 4;
    int last[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      last[r] = (problem.causal ? min(row + 8 * r, problem.seq - 1) : problem.seq - 1) -
                lane % 4 * 2;
    }
    // The first step that holds keys which some row does not see.
    const int whole = (problem.causal ? min(row0 + 1, problem.seq) : problem.seq) / C::kBlockN;
    const auto hide_if_needed = [&](int step) {
      if (step >= whole) {
        const int from = step * C::kBlockN;
        const int left[2] = {last[0] - from, last[1] - from};
        hide<C>(scores, left);
      }
    };
    // A group whose queries lie before the tile's last sees fewer keys; it only passes the rest on.
    const int steps =
        problem.causal ? min(tile.steps, (row0 + kRows + C::kBlockN - 1) / C::kBlockN) : tile.steps;
    int step = part;
    Rows rows;
#pragma unroll
    for (int i = 0; i < C::kOutputs; ++i) outputs[i] = 0.0f;

    Place<C> at_keys(first_step + part), at_values = at_keys;
    wait_for_phase(barriers.queries_full(group), queries_parity);
    if (part < steps) {
      wait_for_phase(barriers.keys_full(at_keys.stage), at_keys.parity);
      pin(scores);
      begin_products();
      multiply_keys<C>(scores, queries, keys + at_keys.stage * kStride);
      wait_for_products<0>();
      pin(scores);
      release(barriers.keys_empty(at_keys.stage));
      at_keys.advance(C::kSplit);
      hide_if_needed(part);
      follow<C>(scores, rows);
      weigh<C, 0, C::kScores>(scores, rows);
      round_weights<C>(weights, scores);

      for (step += C::kSplit; step < steps; step += C::kSplit) {
        if (OVERLAP) {
          wait_for_phase(barriers.keys_full(at_keys.stage), at_keys.parity);
          take_turn();
          pin(scores);
          pin(weights);
          pin(outputs);
          begin_products();
          multiply_keys<C>(scores, queries, keys + at_keys.stage * kStride);
          wait_for_phase(barriers.values_full(at_values.stage), at_values.parity);
          begin_products();
          multiply_values<C>(outputs, weights, values + at_values.stage * kStride);
          pass_turn();
          wait_for_products<1>();
        } else {
          wait_for_phase(barriers.values_full(at_values.stage), at_values.parity);
          take_turn();
          pin(weights);
          pin(outputs);
          begin_products();
          multiply_values<C>(outputs, weights, values + at_values.stage * kStride);
          wait_for_products<0>();
          pin(outputs);
          pin(weights);
          release(barriers.values_empty(at_values.stage));
          wait_for_phase(barriers.keys_full(at_keys.stage), at_keys.parity);
          pin(scores);
          begin_products();
          multiply_keys<C>(scores, queries, keys + at_keys.stage * kStride);
          pass_turn();
          wait_for_products<0>();
        }
        pin(scores);
        release(barriers.keys_empty(at_keys.stage));
        hide_if_needed(step);
        follow<C>(scores, rows);
        weigh<C, 0, C::kLate>(scores, rows);
        if (OVERLAP) {
          if (C::kLate > 0) stay_before(rows.sum[0] + rows.sum[1], shared);
          wait_for_products<0>();
          pin(outputs);
          pin(weights);
          release(barriers.values_empty(at_values.stage));
        }
        weigh<C, C::kLate, C::kScores>(scores, rows);
        shrink<C>(outputs, rows);
        round_weights<C>(weights, scores);
        at_keys.advance(C::kSplit);
        at_values.advance(C::kSplit);
      }
    }
    if (C::kOwnOutput) release(barriers.queries_empty(group));
    if (part < steps) {
      wait_for_phase(barriers.values_full(at_values.stage), at_values.parity);
      pin(weights);
      pin(outputs);
      begin_products();
      multiply_values<C>(outputs, weights, values + at_values.stage * kStride);
      wait_for_products<0>();
      pin(outputs);
      release(barriers.values_empty(at_values.stage));
      at_values.advance(C::kSplit);
    }
    for (; step < tile.steps; step += C::kSplit) {
      take_turn();
      pass_turn();
      wait_for_phase(barriers.keys_full(at_keys.stage), at_keys.parity);
      release(barriers.keys_empty(at_keys.stage));
      wait_for_phase(barriers.values_full(at_values.stage), at_values.parity);
      release(barriers.values_empty(at_values.stage));
      at_keys.advance(C::kSplit);
      at_values.advance(C::kSplit);
    }
    if (C::kSplit > 1) {
      merge<C>(outputs, rows, reinterpret_cast<float*>(memory + C::kMergeAt), group, part);
    }
    if (part == 0) {
      if (C::kOwnOutput) {
        if (lane == 0) wait_for_stores();
        __syncwarp();
      } else {
        named_sync(1 + group, kGroup);  // every warp is done with the queries
      }
      store_outputs<C>(outputs, rows, o,
                       shared + C::kOutputAt + group * C::kQueryBytes + warp * 16 * SWIZZLE,
                       row0 + warp * 16, tile.head);
      if (!C::kOwnOutput) {
        if (lane == 0) wait_for_stores();
        __syncwarp();
      }
    }
    if (!C::kOwnOutput) release(barriers.queries_empty(group));
    queries_parity ^= 1;
    first_step += tile.steps;
  }
  if (lane == 0) wait_for_stores();
  if (C::kPingPong && group == 0) take_turn();
}

template <class C>
__global__ void __launch_bounds__(C::kThreads, BLOCKS)
    attention_wgmma(const __grid_constant__ CUtensorMap q, const __grid_constant__ CUtensorMap k,
                    const __grid_constant__ CUtensorMap v, const __grid_constant__ CUtensorMap o,
                    const Problem problem) {
  extern __shared__ __align__(1024) unsigned char memory[];
  const unsigned shared = static_cast<unsigned>(__cvta_generic_to_shared(memory));
  if (threadIdx.x == 0) Barriers<C>{shared + C::kBarriersAt}.init();
  __syncthreads();
  if (DEPENDENT) asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  if (threadIdx.x < kGroup) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(C::kProducerRegisters));
    // Nothing is read before the kernels before this one have ended, and nothing is written before
    // something is read.
    if (DEPENDENT) asm volatile("griddepcontrol.wait;" ::: "memory");
    if (threadIdx.x == 0) {
      load_keys_and_values<C>(&k, &v, shared, problem);
    } else if (threadIdx.x == 32) {
      load_queries<C>(&q, shared, problem);
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(C::kConsumerRegisters));
    attend<C>(&o, memory, shared, problem);
  }
}

// ---- host

using EncodeTiled = decltype(&cuTensorMapEncodeTiled);

cudaError_t find_encoder(EncodeTiled* encode) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t status = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found,
                                                              12000, cudaEnableDefault, &result);
  if (status != cudaSuccess) return status;
  if (result != cudaDriverEntryPointSuccess) return cudaErrorNotSupported;
  *encode = reinterpret_cast<EncodeTiled>(found);
  return cudaSuccess;
}

// Boxes of ``rows`` rows of one head, kColumns wide. Rows past the head's end read as zeros and
// are not written.
template <class C>
bool make_map(EncodeTiled encode, CUtensorMap* map, const void* array, std::int64_t bh,
              std::int64_t seq, int rows) {
  const cuuint64_t sizes[] = {C::kDim, static_cast<cuuint64_t>(seq), static_cast<cuuint64_t>(bh)};
  const cuuint64_t strides[] = {2 * sizes[0], 2 * sizes[0] * sizes[1]};
  const cuuint32_t box[] = {C::kColumns, static_cast<cuuint32_t>(rows), 1};
  const cuuint32_t steps[] = {1, 1, 1};
  return encode(map, kElement, 3, const_cast<void*>(array), sizes, strides, box, steps,
                CU_TENSOR_MAP_INTERLEAVE_NONE,
                SWIZZLE == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B,
                CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

struct Arrays {
  const void* q;
  const void* k;
  const void* v;
  void* o;
};

template <class C>
cudaError_t launch(const Arrays& arrays, std::int64_t bh, std::int64_t seq, std::int64_t causal,
                   int multiprocessors, cudaStream_t stream) {
  if constexpr (!C::kFits || (kOnlyDim != 0 && kOnlyDim != C::kDim)) {
    return cudaErrorInvalidValue;
  } else {
    const std::int64_t tiles_per_head = (seq + C::kBlockM - 1) / C::kBlockM;
    if (seq > kMaxBlocks - 1024 || bh > kMaxBlocks / tiles_per_head) return cudaErrorInvalidValue;
    EncodeTiled encode = nullptr;
    cudaError_t status = find_encoder(&encode);
    if (status != cudaSuccess) return status;
    CUtensorMap q, k, v, o;
    if (!make_map<C>(encode, &q, arrays.q, bh, seq, kRows) ||
        !make_map<C>(encode, &k, arrays.k, bh, seq, C::kBlockN) ||
        !make_map<C>(encode, &v, arrays.v, bh, seq, C::kBlockN) ||
        !make_map<C>(encode, &o, arrays.o, bh, seq, 16)) {
      return cudaErrorInvalidValue;
    }
    const auto kernel = attention_wgmma<C>;
    status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, C::kBytes);
    if (status != cudaSuccess) return status;
    const int tiles = static_cast<int>(bh * tiles_per_head);
    const int blocks = PERSISTENT ? smaller(tiles, multiprocessors * BLOCKS) : tiles;
    const Problem problem{static_cast<int>(seq), static_cast<int>(tiles_per_head), tiles,
                          causal != 0 ? 1 : 0};
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(blocks);
    config.blockDim = dim3(C::kThreads);
    config.dynamicSmemBytes = C::kBytes;
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = DEPENDENT ? 1 : 0;
    return cudaLaunchKernelEx(&config, kernel, q, k, v, o, problem);
  }
}

}  // namespace

extern "C" int attention(const void* q, const void* k, const void* v, std::int64_t causal, void* o,
                         std::int64_t bh, std::int64_t seq, std::int64_t dim, void* stream) {
  if (dim != 64 && dim != 128) return static_cast<int>(cudaErrorInvalidValue);
  if (bh <= 0 || seq <= 0) return 0;
  int device = 0, multiprocessors = 0;
  cudaError_t status = cudaGetDevice(&device);
  if (status != cudaSuccess) return static_cast<int>(status);
  status = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  if (status != cudaSuccess) return static_cast<int>(status);
  const Arrays arrays{q, k, v, o};
  const auto where = static_cast<cudaStream_t>(stream);
  if (dim == 128) {
    status = launch<Config<128>>(arrays, bh, seq, causal, multiprocessors, where);
  } else if (!kGiven && bh < multiprocessors && bh * ((seq + 255) / 256) < multiprocessors) {
    status = launch<Config<64, !kGiven>>(arrays, bh, seq, causal, multiprocessors, where);
  } else {
    status = launch<Config<64>>(arrays, bh, seq, causal, multiprocessors, where);
  }
  return static_cast<int>(status);
}
