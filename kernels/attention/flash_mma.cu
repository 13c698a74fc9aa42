// kernel: attention_bf16, attention_fp16/flash-mma/cuda
// shapes: q (bh, seq, dim), k (bh, seq, dim), v (bh, seq, dim) -> o (bh, seq, dim), all contiguous, 16-byte aligned, float16, or bfloat16 with ELEMENT_BF16; bh >= 0, seq >= 0, dim 64 or 128; causal 0 or 1; scores finite
// launch: grid bh * ceil(seq / BLOCK_M), block 32 NUM_WARPS; one block per head and tile of BLOCK_M queries, which walks the keys BLOCK_N at a time; sm_80 and newer
// shared: dynamic; a ring of STAGES tiles of k and of v, or the partial outputs where they are merged; above 48 KiB by opt-in; formula below
// work: algorithm 8 B per element of q and 4 dim FLOP per score, half of them if causal; here k and v are read once per BLOCK_M queries, one ex2 per score, tiles above the diagonal skipped
// roof: tensor cores through mma.sync, which reaches 0.62 of their peak on sm_90; at seq 512 the latency of a launch and of the first tiles
// tolerance: by the reference's own error in the element type, see kernel.yaml
// measured: 12.83 us at b2-h8-s512-d64, session 2026-11-26-attention-ladder
#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

// Tunables. Warps stand in groups: the warps of a group share out the BLOCK_M queries, WARP_M each,
// and the groups share out the keys of every tile. The groups run apart and are merged at the end.
#ifndef BLOCK_M  // query rows of a block: 16 to 256, a power of two
#define BLOCK_M 128
#endif
#ifndef BLOCK_N  // keys of a tile, for all groups together: 16 or more for each
#define BLOCK_N 64
#endif
#ifndef BLOCK_K  // 16, 32, 64: keys (q k) or columns (p v) of a step; the next step is loaded ahead
#define BLOCK_K 16
#endif
#ifndef NUM_WARPS  // warps of a block: 1 to 16, a power of two
#define NUM_WARPS 4
#endif
#ifndef WARP_M  // 16, 32, 64: query rows of a warp; WARP_M / 16 products for each fragment of k, v
#define WARP_M (BLOCK_M / NUM_WARPS > 16 ? BLOCK_M / NUM_WARPS : 16)
#endif
#ifndef STAGES  // 1 to 4: tiles of k and v in the ring; with 1, v arrives during q k, k during p v
#define STAGES 1
#endif
#ifndef UNROLL  // 1 to 8: tiles per turn of the loop; a multiple of STAGES makes slots constants
#define UNROLL 1
#endif
#ifndef CP_ASYNC  // 1: copies that bypass registers; 0: loads and stores
#define CP_ASYNC 1
#endif
#ifndef SWIZZLE  // 1: 16-byte pieces of a row permuted by XOR; 0: rows 16 bytes longer
#define SWIZZLE 1
#endif
#ifndef VEC_BYTES  // 4, 8, 16: width of the copies of k and v and of the stores of o
#define VEC_BYTES 16
#endif
#ifndef Q_REGISTERS  // 1: fragments of q stay in registers; 0: each lane reads its own from shared
#define Q_REGISTERS 0
#endif

// With row = 2 dim + (SWIZZLE ? 0 : 16), groups = NUM_WARPS * WARP_M / BLOCK_M, keys = BLOCK_N /
// groups, tiles = WARP_M / 16:
//   threads   = 32 NUM_WARPS
//   ring      = 2 STAGES BLOCK_N row
//   q         = Q_REGISTERS ? 0 : 2 NUM_WARPS WARP_M dim
//   merge     = groups > 1 ? 4 groups BLOCK_M (dim + 2) : 0
//   shared    = max(ring + q, merge)
//   registers >= tiles (dim / 2 + keys / 2 + (Q_REGISTERS ? dim / 4 : 4) + 4) + BLOCK_K / 4 + 8
namespace {

constexpr int kBlockM = BLOCK_M;
constexpr int kBlockN = BLOCK_N;
constexpr int kBlockK = BLOCK_K;
constexpr int kWarps = NUM_WARPS;
constexpr int kWarpM = WARP_M;
constexpr int kStages = STAGES;
constexpr int kUnroll = UNROLL;
constexpr bool kAsync = CP_ASYNC != 0;
constexpr bool kSwizzle = SWIZZLE != 0;
constexpr int kVecBytes = VEC_BYTES;
constexpr bool kQRegisters = Q_REGISTERS != 0;

constexpr bool is_power_of_two(int value) { return value > 0 && (value & (value - 1)) == 0; }
constexpr int larger(int x, int y) { return x > y ? x : y; }
constexpr int smaller(int x, int y) { return x < y ? x : y; }

static_assert(is_power_of_two(kWarps) && kWarps <= 16, "NUM_WARPS is 1, 2, 4, 8 or 16");
static_assert(is_power_of_two(kBlockM) && kBlockM >= 16, "BLOCK_M is a power of two from 16");
static_assert(kWarpM == 16 || kWarpM == 32 || kWarpM == 64, "WARP_M is 16, 32 or 64");
static_assert(kBlockM % kWarpM == 0, "WARP_M divides BLOCK_M");
static_assert(kWarps * kWarpM >= kBlockM, "NUM_WARPS * WARP_M covers BLOCK_M");
static_assert(kStages >= 1 && kStages <= 4, "STAGES is 1 to 4");
static_assert(kUnroll >= 1 && kUnroll <= 8, "UNROLL is 1 to 8");
static_assert(kVecBytes == 4 || kVecBytes == 8 || kVecBytes == 16, "VEC_BYTES is 4, 8 or 16");
static_assert(kBlockK == 16 || kBlockK == 32 || kBlockK == 64, "BLOCK_K is 16, 32 or 64");

constexpr int kThreads = 32 * kWarps;
constexpr int kRowWarps = kBlockM / kWarpM;
constexpr int kGroups = kWarps / kRowWarps;
constexpr int kGroupThreads = 32 * kRowWarps;
constexpr int kKeys = kBlockN / kGroups;
constexpr int kTiles = kWarpM / 16;
static_assert(kGroups * kKeys == kBlockN && kKeys % 16 == 0 && kKeys >= 16,
              "BLOCK_N is a multiple of 16 keys for each of NUM_WARPS * WARP_M / BLOCK_M groups");
static_assert(kKeys % kBlockK == 0, "BLOCK_K divides the keys of a group, BLOCK_N / groups");

constexpr unsigned kFullMask = 0xffffffffu;
constexpr std::int64_t kMaxBlocks = 2147483647;
constexpr std::int64_t kMaxSeq = 1 << 30;
constexpr int kMaxShared = 232448;  // of a block on sm_90; a device with less refuses the opt-in
constexpr int kMaxRegisters = 255;
// In place of -inf where no key was seen: the difference of two infinities is NaN.
constexpr float kLowest = -3.0e38f;

template <int kDim>
struct Layout {
  static constexpr int kRowBytes = 2 * kDim + (kSwizzle ? 0 : 16);
  static constexpr int kTileBytes = kKeys * kRowBytes;
  // Ring of a group: slots of k, then slots of v.
  static constexpr int kGroupBytes = 2 * kStages * kTileBytes;
  static constexpr int kRingBytes = kGroups * kGroupBytes;
  static constexpr int kWarpQBytes = kQRegisters ? 0 : 2 * kWarpM * kDim;
  static constexpr int kMergeBytes = kGroups > 1 ? 4 * kGroups * kBlockM * (kDim + 2) : 0;
  static constexpr int kBytes = larger(kRingBytes + kWarps * kWarpQBytes, kMergeBytes);
  static constexpr int kRegisters =
      kTiles * (kDim / 2 + kKeys / 2 + (kQRegisters ? kDim / 4 : 4) + 4) + kBlockK / 4 + 8;
  static constexpr bool kFits = kBytes <= kMaxShared && kRegisters <= kMaxRegisters &&
                                kRegisters * kThreads <= 65536;
};
// A trial of kb tune has one head dimension and mask, and is compiled for these alone.
#ifdef DIM
constexpr int kOnlyDim = DIM;
#else
constexpr int kOnlyDim = 0;
#endif
#ifdef CAUSAL
constexpr int kOnlyCausal = CAUSAL;
#else
constexpr int kOnlyCausal = -1;
#endif
constexpr int kLeastDim = kOnlyDim != 0 ? kOnlyDim : 64;
static_assert(Layout<kLeastDim>::kBytes <= kMaxShared, "the ring or the merge exceeds 227 KiB");
static_assert(Layout<kLeastDim>::kRegisters <= kMaxRegisters, "more than 255 registers");
static_assert(Layout<kLeastDim>::kRegisters * kThreads <= 65536, "more than 65536 registers");

using Pair = std::uint32_t;  // two elements of q, k, v or o

using Vec = std::conditional_t<kVecBytes == 16, uint4,
                               std::conditional_t<kVecBytes == 8, uint2, std::uint32_t>>;

// Unrolled, so that what is indexed by the counters can be registers.
template <int kCount, class Body>
__device__ __forceinline__ void repeat(Body body) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) body(i);
}

template <int kOuter, int kInner, class Body>
__device__ __forceinline__ void repeat(Body body) {
#pragma unroll
  for (int i = 0; i < kOuter * kInner; ++i) body(i / kInner, i % kInner);
}

#ifdef ELEMENT_BF16
#define ELEMENT "bf16"
#else
#define ELEMENT "f16"
#endif
#if VEC_BYTES == 16
#define CACHED "cg"  // in L2 alone, which is what 16 bytes allow
#else
#define CACHED "ca"
#endif

__device__ __forceinline__ Pair pack(float low, float high) {
  Pair pair;
  asm("cvt.rn." ELEMENT "x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

// d = a b, or plus d: a has 16 rows, b 8 columns, both 16 deep.
__device__ __forceinline__ void multiply(float (&d)[4], const Pair (&a)[4], const Pair* b,
                                         bool add) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32." ELEMENT "." ELEMENT ".f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]),
        "f"(add ? d[0] : 0.0f), "f"(add ? d[1] : 0.0f), "f"(add ? d[2] : 0.0f),
        "f"(add ? d[3] : 0.0f));
}

#define LOAD_MATRICES(transposed, to, from)                                                \
  asm volatile("ldmatrix.sync.aligned.m8n8.x4" transposed ".shared.b16 {%0, %1, %2, %3}, [%4];" \
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])                        \
               : "r"(from))

__device__ __forceinline__ float power_of_two(float exponent) {
  float value;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(value) : "f"(exponent));
  return value;
}

// Zeros unless ``inside``.
__device__ __forceinline__ void copy_async(unsigned to, const void* from, bool inside) {
  asm volatile("cp.async." CACHED ".shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from),
               "n"(kVecBytes), "r"(inside ? kVecBytes : 0)
               : "memory");
}

__device__ __forceinline__ void commit() {
  if (kAsync) asm volatile("cp.async.commit_group;" ::: "memory");
}

// Until at most kPending commits of this thread are under way and its group's warps are here, too.
template <int kPending>
__device__ __forceinline__ void wait(int group) {
  if (kAsync) asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
  if (kGroups == 1) {
    __syncthreads();
  } else if (kRowWarps == 1) {
    __syncwarp();
  } else {
    asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "n"(kGroupThreads) : "memory");
  }
}

// The column ``bytes`` further on: XOR, since the lane's own address is permuted by XOR already.
__device__ __forceinline__ unsigned at_column(unsigned address, int bytes) {
  return kSwizzle ? address ^ bytes : address + bytes;
}

// Copies the keys of a tile to a slot, by the threads of its group; zeros where there are no rows.
template <int kDim>
__device__ __forceinline__ void fill(char* slot, const Pair* source, int rows, int thread) {
  constexpr int kRowVecs = 2 * kDim / kVecBytes;
  constexpr int kAcross = kRowVecs < kGroupThreads ? kRowVecs : kGroupThreads;
  constexpr int kDown = kGroupThreads / kAcross;
  constexpr int kColumns = kRowVecs / kAcross;
  constexpr int kCopies = (kKeys + kDown - 1) / kDown * kColumns;
  constexpr int kBatch = !kAsync && kCopies % 4 == 0 ? 4 : 1;
  const char* first = reinterpret_cast<const char*>(source);
  repeat<kCopies / kBatch>([&](int batch) {
    Vec values[kBatch];
    int offsets[kBatch];
    repeat<kBatch>([&](int i) {
      const int copy = batch * kBatch + i;
      const int row = thread / kAcross + copy / kColumns * kDown;
      const int bytes = (thread % kAcross + copy % kColumns * kAcross) * kVecBytes;
      const char* from = first + row * 2 * kDim + bytes;
      offsets[i] = row * Layout<kDim>::kRowBytes + (kSwizzle ? bytes ^ (row % 8 * 16) : bytes);
      if (kKeys % kDown != 0 && row >= kKeys) offsets[i] = -1;
      if (kAsync && offsets[i] >= 0) {
        const auto to = static_cast<unsigned>(__cvta_generic_to_shared(slot)) + offsets[i];
        copy_async(to, from, row < rows);
      } else if (!kAsync) {
        values[i] = row < rows && offsets[i] >= 0 ? *reinterpret_cast<const Vec*>(from) : Vec{};
      }
    });
    repeat<kBatch>([&](int i) {
      if (!kAsync && offsets[i] >= 0) *reinterpret_cast<Vec*>(slot + offsets[i]) = values[i];
    });
  });
}

// What a warp knows of its queries. A lane holds rows lane / 4 and that plus 8 of each 16, and of
// every 8 keys or columns the two from lane % 4 * 2.
template <int kDim, bool kCausal>
class Rows {
 public:
  static constexpr int kSteps = kDim / 16;
  static constexpr int kKeySteps = kKeys / 16;
  static constexpr int kColumnTiles = kDim / 8;
  static constexpr int kSlice = kBlockK / 16;
  static constexpr int kWords = kVecBytes / 4;
  static constexpr int kOwnTiles = kColumnTiles / smaller(kGroups, kColumnTiles / kWords);
  static_assert(kDim % kBlockK == 0, "BLOCK_K divides dim");

  // row: the first of the warp's. park: room of the warp for q, unless it stays in registers.
  __device__ __forceinline__ Rows(int lane, int row, int seq, float scale, uint4* park)
      : lane_(lane), row_(row), seq_(seq), scale_(scale), park_(park) {
    repeat<kTiles, 2>([&](int m, int h) {
      base_[m][h] = kLowest;
      sum_[m][h] = 0.0f;
    });
    repeat<kTiles, 4 * kColumnTiles>([&](int m, int e) { o_[m][e / 4][e % 4] = 0.0f; });
  }

  // q: of the head. Rows that do not exist are zeros.
  __device__ __forceinline__ void load(const Pair* __restrict__ q) {
    repeat<kTiles, kSteps>([&](int m, int step) {
      Pair found[4];
      repeat<4>([&](int e) {
        const int mine = row(m, e % 2);
        const int pair = step * 8 + e / 2 * 4 + lane_ % 4;
        found[e] = mine < seq_ ? q[static_cast<std::int64_t>(mine) * (kDim / 2) + pair] : 0u;
      });
      if (kQRegisters) {
        repeat<4>([&](int e) { q_[kQRegisters ? m : 0][step][e] = found[e]; });
      } else {
        park_[(m * kSteps + step) * 32 + lane_] =
            make_uint4(found[0], found[1], found[2], found[3]);
      }
    });
  }

  // s_ = q k: of the keys in the slot, BLOCK_K after BLOCK_K. The fragments of the next 16 columns
  // are loaded before the products of these.
  __device__ __forceinline__ void score(unsigned slot) {
    constexpr int kSlices = kKeys / kBlockK;
    const unsigned row = slot + (lane_ % 8 + lane_ / 16 * 8) * Layout<kDim>::kRowBytes;
    const unsigned from = at_column(row + (kSwizzle ? lane_ % 8 * 16 : 0), lane_ / 8 % 2 * 16);
    Pair ahead[2][kSlice][4];
    Pair q[kTiles][4];
    take<false>(ahead[0], from, 0, 0);
    repeat<kSlices, kSteps>([&](int slice, int step) {
      const int i = slice * kSteps + step;
      if (i + 1 < kSteps * kSlices) {
        take<false>(ahead[(i + 1) % 2], from, (i + 1) / kSteps * kBlockK, (i + 1) % kSteps * 32);
      }
      repeat<kTiles>([&](int m) { fetch_q(q[m], m, step); });
      repeat<2 * kSlice, kTiles>([&](int j, int m) {
        multiply(s_[m][slice * 2 * kSlice + j], q[m], &ahead[i % 2][j / 2][j % 2 * 2], step > 0);
      });
    });
  }

  // key0: the first of the tile. Scores of keys that do not exist or come later become -inf.
  __device__ __forceinline__ void mask(int key0) {
    if (key0 + kKeys <= seq_ && (!kCausal || key0 + kKeys <= row_ + 1)) return;
    repeat<kTiles, 8 * kKeySteps>([&](int m, int e) {
      const int key = key0 + e / 4 * 8 + lane_ % 4 * 2 + e % 2;
      const bool later = kCausal && key > row(m, e / 2 % 2);
      if (key >= seq_ || later) s_[m][e / 4][e % 4] = -INFINITY;
    });
  }

  // Makes sums and outputs relative to the largest score so far, where that is a new one.
  __device__ __forceinline__ void rebase() {
    float shrink[kTiles][2];
    bool moves = false;
    repeat<kTiles, 2>([&](int m, int h) {
      float most = s_[m][0][2 * h];
      repeat<4 * kKeySteps>([&](int e) { most = fmaxf(most, s_[m][e / 2][2 * h + e % 2]); });
      most = fmaxf(most, __shfl_xor_sync(kFullMask, most, 1));
      most = fmaxf(most, __shfl_xor_sync(kFullMask, most, 2)) * scale_;
      most = fmaxf(most, base_[m][h]);
      shrink[m][h] = power_of_two(base_[m][h] - most);
      moves = moves || most > base_[m][h];
      base_[m][h] = most;
    });
    if (!__any_sync(kFullMask, moves)) return;
    repeat<kTiles, 2>([&](int m, int h) { sum_[m][h] *= shrink[m][h]; });
    repeat<kTiles, 4 * kColumnTiles>([&](int m, int e) {
      o_[m][e / 4][e % 4] *= shrink[m][e / 2 % 2];
    });
  }

  // o_ += p v: of the values in the slot. The weights of 16 keys are made when they are needed, so
  // that the products of the keys before run meanwhile.
  __device__ __forceinline__ void accumulate(unsigned slot) {
    constexpr int kSlices = kDim / kBlockK;
    const unsigned row = slot + lane_ % 16 * Layout<kDim>::kRowBytes;
    const unsigned from = at_column(row + (kSwizzle ? lane_ % 8 * 16 : 0), lane_ / 16 * 16);
    Pair ahead[2][kSlice][4];
    Pair p[kTiles][4];
    take<true>(ahead[0], from, 0, 0);
    repeat<kKeySteps, kSlices>([&](int step, int slice) {
      const int i = step * kSlices + slice;
      if (i + 1 < kKeySteps * kSlices) {
        take<true>(ahead[(i + 1) % 2], from, (i + 1) / kSlices * 16,
                   (i + 1) % kSlices * kBlockK * 2);
      }
      if (slice == 0) repeat<kTiles>([&](int m) { weigh(p[m], m, 2 * step); });
      repeat<2 * kSlice, kTiles>([&](int j, int m) {
        multiply(o_[m][slice * 2 * kSlice + j], p[m], &ahead[i % 2][j / 2][j % 2 * 2], true);
      });
    });
  }

  // Sums over the four lanes of a row, then over the groups, through all of the shared memory.
  // Afterwards a group has its share of the columns, and is the only one that has.
  __device__ __forceinline__ void finish(float4* parts, int warp, int group) {
    repeat<kTiles, 2>([&](int m, int h) {
      sum_[m][h] += __shfl_xor_sync(kFullMask, sum_[m][h], 1);
      sum_[m][h] += __shfl_xor_sync(kFullMask, sum_[m][h], 2);
    });
    if (kGroups > 1) merge(parts, warp, group);
  }

  // o: of the head.
  __device__ __forceinline__ void write(Pair* __restrict__ o, int group) const {
    const int lane = lane_ % 4;
    repeat<kTiles, 2>([&](int m, int h) {
      const float inverse = 1.0f / sum_[m][h];
      Pair* to = o + static_cast<std::int64_t>(row(m, h)) * (kDim / 2);
      repeat<kColumnTiles / kWords>([&](int i) {
        const int n = i * kWords;
        if (kGroups > 1 && n / kOwnTiles != group) return;
        Pair words[kWords];
        repeat<kWords>([&](int w) {
          words[w] = pack(o_[m][n + w][2 * h] * inverse, o_[m][n + w][2 * h + 1] * inverse);
        });
        if (kWords > 1) exchange(words, 1);
        if (kWords > 2) exchange(words, 2);
        Vec value;
        repeat<kWords>([&](int w) { reinterpret_cast<Pair*>(&value)[w] = words[w]; });
        const int pair = 4 * (n + lane % kWords) + lane / kWords * kWords;
        if (row(m, h) < seq_) *reinterpret_cast<Vec*>(to + pair) = value;
      });
    });
  }

 private:
  __device__ __forceinline__ int row(int m, int half) const {
    return row_ + m * 16 + half * 8 + lane_ / 4;
  }

  // The weights of 16 keys from those of tile n, as a left operand.
  __device__ __forceinline__ void weigh(Pair (&p)[4], int m, int n) {
    repeat<4>([&](int e) {
      const float* s = &s_[m][n + e / 2][e % 2 * 2];
      const float low = power_of_two(s[0] * scale_ - base_[m][e % 2]);
      const float high = power_of_two(s[1] * scale_ - base_[m][e % 2]);
      sum_[m][e % 2] += low + high;
      p[e] = pack(low, high);
    });
  }

  // Fragments of BLOCK_K keys (16 columns) or columns (16 keys) of a tile.
  template <bool kValues>
  __device__ __forceinline__ void take(Pair (&to)[kSlice][4], unsigned from, int key, int bytes) {
    repeat<kSlice>([&](int j) {
      const unsigned column = at_column(from, kValues ? bytes + j * 32 : bytes);
      const unsigned at = column + (kValues ? key : key + j * 16) * Layout<kDim>::kRowBytes;
      if (kValues) {
        LOAD_MATRICES(".trans", to[j], at);
      } else {
        LOAD_MATRICES("", to[j], at);
      }
    });
  }

  __device__ __forceinline__ void fetch_q(Pair (&to)[4], int m, int step) const {
    if (kQRegisters) {
      repeat<4>([&](int e) { to[e] = q_[kQRegisters ? m : 0][step][e]; });
    } else {
      const uint4 found = park_[(m * kSteps + step) * 32 + lane_];
      to[0] = found.x, to[1] = found.y, to[2] = found.z, to[3] = found.w;
    }
  }

  // Swaps halves with the lane that differs in ``bit``, one step of a transposition.
  __device__ __forceinline__ void exchange(Pair (&words)[kWords], int bit) const {
    const bool upper = (lane_ & bit) != 0;
    repeat<kWords>([&](int w) {
      if ((w & bit) != 0) return;
      const Pair other = __shfl_xor_sync(kFullMask, upper ? words[w] : words[w | bit], bit);
      words[w] = upper ? other : words[w];
      words[w | bit] = upper ? words[w | bit] : other;
    });
  }

  __device__ __forceinline__ void merge(float4* parts, int warp, int group) {
    float2* stats = reinterpret_cast<float2*>(parts + kGroups * kBlockM * kDim / 4);
    const auto part = [&](int g, int m, int n) -> float4& {
      return parts[(((g * kRowWarps + warp) * kTiles + m) * kColumnTiles + n) * 32 + lane_];
    };
    const auto stat = [&](int g, int m, int h) -> float2& {
      return stats[g * kBlockM + warp * kWarpM + m * 16 + h * 8 + lane_ / 4];
    };
    __syncthreads();  // the ring is still read until here
    repeat<kTiles, kColumnTiles>([&](int m, int n) {
      if (n / kOwnTiles == group) return;
      part(group, m, n) = make_float4(o_[m][n][0], o_[m][n][1], o_[m][n][2], o_[m][n][3]);
    });
    repeat<kTiles, 2>([&](int m, int h) {
      if (lane_ % 4 == 0) stat(group, m, h) = make_float2(base_[m][h], sum_[m][h]);
    });
    __syncthreads();
    repeat<kTiles>([&](int m) {
      float factors[2][kGroups];  // of this group, the next, and so on
      repeat<2>([&](int h) {
        float most = kLowest;
        repeat<kGroups>([&](int i) { most = fmaxf(most, stat(i, m, h).x); });
        sum_[m][h] = 0.0f;
        repeat<kGroups>([&](int i) {
          const float2 found = stat((group + i) % kGroups, m, h);
          factors[h][i] = power_of_two(found.x - most);
          sum_[m][h] += factors[h][i] * found.y;
        });
      });
      repeat<kColumnTiles>([&](int n) {
        if (n / kOwnTiles != group) return;
        repeat<4>([&](int e) { o_[m][n][e] *= factors[e / 2][0]; });
        repeat<kGroups - 1>([&](int i) {
          const float4 other = part((group + i + 1) % kGroups, m, n);
          o_[m][n][0] += factors[0][i + 1] * other.x;
          o_[m][n][1] += factors[0][i + 1] * other.y;
          o_[m][n][2] += factors[1][i + 1] * other.z;
          o_[m][n][3] += factors[1][i + 1] * other.w;
        });
      });
    });
  }

  int lane_;
  int row_;
  int seq_;
  float scale_;
  uint4* park_;
  Pair q_[kQRegisters ? kTiles : 1][kSteps][4];
  float s_[kTiles][2 * kKeySteps][4];
  float o_[kTiles][kColumnTiles][4];
  float base_[kTiles][2];
  float sum_[kTiles][2];
};

template <int kDim, bool kCausal>
__global__ void __launch_bounds__(kThreads)
    attention_mma(const Pair* __restrict__ q, const Pair* __restrict__ k,
                  const Pair* __restrict__ v, Pair* __restrict__ o, int seq, float scale) {
  extern __shared__ __align__(1024) char memory[];
  using Shared = Layout<kDim>;
  const int warp = threadIdx.x / 32 % kRowWarps;
  const int group = kGroups > 1 ? threadIdx.x / kGroupThreads : 0;
  const int blocks_per_head = (seq + kBlockM - 1) / kBlockM;
  const int block = blockIdx.x % blocks_per_head;
  // The longest rows of a causal head first: the short ones fill the gaps.
  const int query0 = (kCausal ? blocks_per_head - 1 - block : block) * kBlockM;
  const std::int64_t head =
      static_cast<std::int64_t>(blockIdx.x / blocks_per_head) * seq * (kDim / 2);
  char* park = memory + Shared::kRingBytes + threadIdx.x / 32 * Shared::kWarpQBytes;
  Rows<kDim, kCausal> rows(threadIdx.x % 32, query0 + warp * kWarpM, seq, scale,
                           reinterpret_cast<uint4*>(park));

  // Tile i of this group is kKeys keys from key0 + i * kBlockN, in slot i % kStages.
  const int keys = kCausal && query0 + kBlockM < seq ? query0 + kBlockM : seq;
  const int key0 = group * kKeys;
  const int tiles = (keys + kBlockN - 1) / kBlockN;  // as many in each group, some of them empty
  char* ring = memory + group * Shared::kGroupBytes;
  const auto ring_address = static_cast<unsigned>(__cvta_generic_to_shared(ring));
  const auto fetch = [&](const Pair* from, int slot, int tile) {
    const int key = key0 + tile * kBlockN;
    if (tile < tiles) {
      fill<kDim>(ring + slot * Shared::kTileBytes,
                 from + head + static_cast<std::int64_t>(key) * (kDim / 2), seq - key,
                 threadIdx.x % kGroupThreads);
    }
    commit();
  };

  rows.load(q + head);
  repeat<kStages>([&](int i) {
    fetch(k, i, i);
    if (i + 1 < kStages) fetch(v, kStages + i, i);
  });
  int running = 0;
  for (int first = 0; first < tiles; first += kUnroll) {
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int i = first + u;
      if (i >= tiles) break;
      const int slot = kUnroll % kStages == 0 ? u % kStages : running;
      running = slot + 1 == kStages ? 0 : slot + 1;
      wait<2 * kStages - 2>(group);  // the keys of tile i are here, the values before them used
      fetch(v, kStages + (slot == 0 ? kStages - 1 : slot - 1), i + kStages - 1);
      rows.score(ring_address + slot * Shared::kTileBytes);
      rows.mask(key0 + i * kBlockN);
      rows.rebase();
      wait<2 * kStages - 2>(group);  // the values of tile i are here, its keys used
      fetch(k, slot, i + kStages);
      rows.accumulate(ring_address + (kStages + slot) * Shared::kTileBytes);
    }
  }
  rows.finish(reinterpret_cast<float4*>(memory), warp, group);
  rows.write(o + head, group);
}

template <int kDim, bool kCausal>
cudaError_t launch(const void* const (&arrays)[3], void* o, int seq, unsigned blocks,
                   cudaStream_t stream) {
  const auto kernel = attention_mma<kDim, kCausal>;
  constexpr int kBytes = Layout<kDim>::kBytes;
  const cudaError_t refused =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  if (refused != cudaSuccess) return refused;
  // log2(e) / sqrt(dim): the scores come out as powers of two.
  const float scale = 1.4426950408889634f / sqrtf(static_cast<float>(kDim));
  kernel<<<blocks, kThreads, kBytes, stream>>>(
      static_cast<const Pair*>(arrays[0]), static_cast<const Pair*>(arrays[1]),
      static_cast<const Pair*>(arrays[2]), static_cast<Pair*>(o), seq, scale);
  return cudaGetLastError();
}

// A dim for which the configuration does not fit is refused, and no code is made for it.
template <int kDim>
cudaError_t launch(const void* const (&arrays)[3], void* o, int seq, bool causal, unsigned blocks,
                   cudaStream_t stream) {
  if constexpr (!Layout<kDim>::kFits || (kOnlyDim != 0 && kOnlyDim != kDim)) {
    return cudaErrorInvalidValue;
  } else if constexpr (kOnlyCausal >= 0) {
    return causal == (kOnlyCausal == 1)
               ? launch<kDim, kOnlyCausal == 1>(arrays, o, seq, blocks, stream)
               : cudaErrorInvalidValue;
  } else {
    return causal ? launch<kDim, true>(arrays, o, seq, blocks, stream)
                  : launch<kDim, false>(arrays, o, seq, blocks, stream);
  }
}

}  // namespace

extern "C" int attention(const void* q, const void* k, const void* v, std::int64_t causal, void* o,
                         std::int64_t bh, std::int64_t seq, std::int64_t dim, void* stream) {
  const bool in_range = bh >= 0 && seq >= 0 && seq <= kMaxSeq && (dim == 64 || dim == 128);
  const std::int64_t blocks_per_head = in_range ? (seq + kBlockM - 1) / kBlockM : 0;
  if (!in_range || (blocks_per_head > 0 && bh > kMaxBlocks / blocks_per_head)) {
    return static_cast<int>(cudaErrorInvalidValue);
  }
  const auto blocks = static_cast<unsigned>(bh * blocks_per_head);
  if (blocks == 0) return 0;
  const auto addresses =
      reinterpret_cast<std::uintptr_t>(q) | reinterpret_cast<std::uintptr_t>(k) |
      reinterpret_cast<std::uintptr_t>(v) | reinterpret_cast<std::uintptr_t>(o);
  if (addresses % kVecBytes != 0) return static_cast<int>(cudaErrorInvalidValue);
  const void* const arrays[] = {q, k, v};
  const auto launch_dim = dim == 64 ? launch<64> : launch<128>;
  return static_cast<int>(launch_dim(arrays, o, static_cast<int>(seq), causal != 0, blocks,
                                     static_cast<cudaStream_t>(stream)));
}
