// kernel: attention/tiled/cuda
// shapes: q (bh, seq, dim) float32 contiguous, k (bh, seq, dim) float32 contiguous, v (bh, seq, dim) float32 contiguous -> o (bh, seq, dim) float32 contiguous; bh >= 0, seq >= 0, 1 <= dim <= 128; scores finite
// launch: grid bh * ceil(seq / 64), block 128; one block per head and tile of 64 queries, which walks the keys 64 (32 above dim 64) at a time
// shared: dynamic; 68608 B (dim <= 64) or 76288 B of q, k, v and weights, above 48 KiB by opt-in
// work: algorithm 16 B per element of q and 4 dim FLOP per score; here each score is computed once, dim padded to 64 or 128, k and v read once per 64 queries, one exp2f per score
// roof: FP32 FMA units where seq / 4 FLOP/B lies right of the ridge: from seq 80 on h100-sxm (20 FLOP/B), from seq 424 on l40s (106 FLOP/B), whose ridge is the farthest of the GPUs known here
// tolerance: float32 atol 2.0e-6 rtol 1.0e-5 matched_ratio 1.0 max_error 1.0e-5
// measured: 147 us at large, session 2026-11-21-attention
#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace {

constexpr int kThreads = 128;
constexpr unsigned kFullMask = 0xffffffffu;
constexpr int kMaxDim = 128;
constexpr std::int64_t kMaxBlocks = 2147483647;

// A block is 8 teams of 16 lanes. A team owns every eighth query of the tile, and each of its
// lanes every sixteenth key and groups of four neighbouring columns of o.
constexpr int kLanes = 16;
constexpr int kTeams = kThreads / kLanes;
constexpr int kRows = 8;
constexpr int kQueries = kTeams * kRows;
// With 4 more floats per row, neighbouring rows lie in different banks.
constexpr int kPad = 4;

template <int kDim, int kKeys>
struct Tiles {
  float q[kQueries][kDim + kPad];
  float k[kKeys][kDim + kPad];
  float v[kKeys][kDim];
  float weights[kQueries][kKeys + kPad];
};

// Four floats from a row of which ``left`` remain, zeros past its end. kWidth 4 is a 16-byte load,
// for which the row's length is a multiple of four; kWidth 1 serves every other row.
template <int kWidth>
__device__ float4 load_four(const float* source, int left) {
  float4 found = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  if (kWidth == 4) {
    if (left > 0) found = *reinterpret_cast<const float4*>(source);
  } else {
    if (left > 0) found.x = source[0];
    if (left > 1) found.y = source[1];
    if (left > 2) found.z = source[2];
    if (left > 3) found.w = source[3];
  }
  return found;
}

template <int kWidth>
__device__ void store_four(float* target, int left, float4 values) {
  if (kWidth == 4) {
    if (left > 0) *reinterpret_cast<float4*>(target) = values;
  } else {
    if (left > 0) target[0] = values.x;
    if (left > 1) target[1] = values.y;
    if (left > 2) target[2] = values.z;
    if (left > 3) target[3] = values.w;
  }
}

__device__ float4 times(float factor, float4 value) {
  return make_float4(factor * value.x, factor * value.y, factor * value.z, factor * value.w);
}

__device__ float dot(float4 x, float4 y, float sum) {
  return sum + x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w;
}

__device__ float4 plus(float4 sum, float weight, float4 value) {
  return make_float4(sum.x + weight * value.x, sum.y + weight * value.y,
                     sum.z + weight * value.z, sum.w + weight * value.w);
}

// Copies ``count`` rows of a global array into a tile, times ``factor``, and zeros in what is left
// of it: zeros add nothing to a score or an output.
template <int kWidth, int kTileRows, int kDim, int kStride>
__device__ void fill(float (&tile)[kTileRows][kStride], const float* source, std::int64_t count,
                     int dim, float factor) {
  constexpr int kPacks = kDim / 4;
  for (int i = threadIdx.x; i < kTileRows * kPacks; i += kThreads) {
    const int row = i / kPacks;
    const int column = i % kPacks * 4;
    const int left = row < count ? dim - column : 0;
    const float4 four = load_four<kWidth>(source + static_cast<std::int64_t>(row) * dim + column,
                                          left);
    *reinterpret_cast<float4*>(&tile[row][column]) = times(factor, four);
  }
}

// The lanes of a team sit in one half of a warp.
__device__ float team_max(float value) {
#pragma unroll
  for (int offset = kLanes / 2; offset > 0; offset /= 2) {
    value = fmaxf(value, __shfl_xor_sync(kFullMask, value, offset));
  }
  return value;
}

__device__ float team_sum(float value) {
#pragma unroll
  for (int offset = kLanes / 2; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(kFullMask, value, offset);
  }
  return value;
}

// What a thread knows of its queries: the largest score so far, in powers of two, its own share of
// the sum of weights, and its columns of o, the last two relative to that largest score.
template <int kDim, int kKeys>
class Running {
 public:
  static constexpr int kOwnKeys = kKeys / kLanes;
  static constexpr int kOwnPacks = kDim / (4 * kLanes);

  __device__ Running() : team_(threadIdx.x / kLanes), lane_(threadIdx.x % kLanes) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      most_[i] = -INFINITY;
      sum_[i] = 0.0f;
#pragma unroll
      for (int p = 0; p < kOwnPacks; ++p) o_[i][p] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
  }

  // keys: how many of the tile's keys there are, at least one: or the largest score would stay
  // -inf, and the difference of two infinities is NaN.
  __device__ void take(Tiles<kDim, kKeys>& tiles, std::int64_t keys) {
    float scores[kRows][kOwnKeys];
    score(tiles, keys, scores);
    weigh(tiles, scores);
    // Only the team's own lanes wrote the weights that they read.
    __syncwarp();
    accumulate(tiles);
  }

  // o: the first of the tile's rows, of which ``rows`` exist.
  template <int kWidth>
  __device__ void write(float* o, std::int64_t rows, int dim) const {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const float inverse = 1.0f / team_sum(sum_[i]);
      if (row(i) >= rows) continue;
#pragma unroll
      for (int p = 0; p < kOwnPacks; ++p) {
        store_four<kWidth>(o + static_cast<std::int64_t>(row(i)) * dim + column(p),
                           dim - column(p), times(inverse, o_[i][p]));
      }
    }
  }

 private:
  __device__ int row(int i) const { return team_ + i * kTeams; }
  __device__ int key(int j) const { return lane_ + j * kLanes; }
  __device__ int column(int p) const { return 4 * (lane_ + p * kLanes); }

  __device__ void score(const Tiles<kDim, kKeys>& tiles, std::int64_t keys,
                        float (&scores)[kRows][kOwnKeys]) const {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int j = 0; j < kOwnKeys; ++j) scores[i][j] = 0.0f;
    }
#pragma unroll 2
    for (int d = 0; d < kDim; d += 4) {
      float4 k[kOwnKeys];
#pragma unroll
      for (int j = 0; j < kOwnKeys; ++j) {
        k[j] = *reinterpret_cast<const float4*>(&tiles.k[key(j)][d]);
      }
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        const float4 q = *reinterpret_cast<const float4*>(&tiles.q[row(i)][d]);
#pragma unroll
        for (int j = 0; j < kOwnKeys; ++j) scores[i][j] = dot(q, k[j], scores[i][j]);
      }
    }
#pragma unroll
    for (int j = 0; j < kOwnKeys; ++j) {
      if (key(j) < keys) continue;
#pragma unroll
      for (int i = 0; i < kRows; ++i) scores[i][j] = -INFINITY;
    }
  }

  __device__ void weigh(Tiles<kDim, kKeys>& tiles, const float (&scores)[kRows][kOwnKeys]) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      float most = most_[i];
#pragma unroll
      for (int j = 0; j < kOwnKeys; ++j) most = fmaxf(most, scores[i][j]);
      most = team_max(most);
      const float shrink = exp2f(most_[i] - most);
      most_[i] = most;
      sum_[i] *= shrink;
#pragma unroll
      for (int p = 0; p < kOwnPacks; ++p) o_[i][p] = times(shrink, o_[i][p]);
#pragma unroll
      for (int j = 0; j < kOwnKeys; ++j) {
        const float weight = exp2f(scores[i][j] - most);
        sum_[i] += weight;
        tiles.weights[row(i)][key(j)] = weight;
      }
    }
  }

  __device__ void accumulate(const Tiles<kDim, kKeys>& tiles) {
#pragma unroll 2
    for (int j = 0; j < kKeys; j += 4) {
      float4 v[4][kOwnPacks];
#pragma unroll
      for (int step = 0; step < 4; ++step) {
#pragma unroll
        for (int p = 0; p < kOwnPacks; ++p) {
          v[step][p] = *reinterpret_cast<const float4*>(&tiles.v[j + step][column(p)]);
        }
      }
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        const float4 weights = *reinterpret_cast<const float4*>(&tiles.weights[row(i)][j]);
#pragma unroll
        for (int p = 0; p < kOwnPacks; ++p) {
          o_[i][p] = plus(o_[i][p], weights.x, v[0][p]);
          o_[i][p] = plus(o_[i][p], weights.y, v[1][p]);
          o_[i][p] = plus(o_[i][p], weights.z, v[2][p]);
          o_[i][p] = plus(o_[i][p], weights.w, v[3][p]);
        }
      }
    }
  }

  int team_;
  int lane_;
  float most_[kRows];
  float sum_[kRows];
  float4 o_[kRows][kOwnPacks];
};

template <int kWidth, int kDim, int kKeys>
__global__ void __launch_bounds__(kThreads)
    attention_block_per_tile(const float* __restrict__ q, const float* __restrict__ k,
                             const float* __restrict__ v, float* __restrict__ o, std::int64_t seq,
                             int dim) {
  extern __shared__ float4 memory[];
  auto& tiles = *reinterpret_cast<Tiles<kDim, kKeys>*>(memory);
  const std::int64_t tiles_per_head = (seq + kQueries - 1) / kQueries;
  const std::int64_t head = blockIdx.x / tiles_per_head * seq * dim;
  const std::int64_t query0 = blockIdx.x % tiles_per_head * kQueries;
  const std::int64_t first = head + query0 * dim;

  // log2(e) / sqrt(dim): the scores come out as powers of two.
  const float scale = 1.4426950408889634f / sqrtf(static_cast<float>(dim));
  fill<kWidth, kQueries, kDim>(tiles.q, q + first, seq - query0, dim, scale);

  Running<kDim, kKeys> running;
  for (std::int64_t key0 = 0; key0 < seq; key0 += kKeys) {
    __syncthreads();  // the keys before these are still read until here
    fill<kWidth, kKeys, kDim>(tiles.k, k + head + key0 * dim, seq - key0, dim, 1.0f);
    fill<kWidth, kKeys, kDim>(tiles.v, v + head + key0 * dim, seq - key0, dim, 1.0f);
    __syncthreads();
    running.take(tiles, seq - key0);
  }
  running.template write<kWidth>(o + first, seq - query0, dim);
}

struct Problem {
  const float* q;
  const float* k;
  const float* v;
  float* o;
  std::int64_t seq;
  int dim;
  unsigned blocks;
  cudaStream_t stream;
};

template <int kWidth, int kDim, int kKeys>
cudaError_t launch(const Problem& p) {
  const auto kernel = attention_block_per_tile<kWidth, kDim, kKeys>;
  constexpr int kBytes = sizeof(Tiles<kDim, kKeys>);
  const cudaError_t refused =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  if (refused != cudaSuccess) return refused;
  kernel<<<p.blocks, kThreads, kBytes, p.stream>>>(p.q, p.k, p.v, p.o, p.seq, p.dim);
  return cudaGetLastError();
}

template <int kWidth>
cudaError_t launch(const Problem& p) {
  if (p.dim <= 64) return launch<kWidth, 64, 64>(p);
  return launch<kWidth, kMaxDim, 32>(p);
}

bool takes_packs_of_four(const Problem& p) {
  const auto addresses =
      reinterpret_cast<std::uintptr_t>(p.q) | reinterpret_cast<std::uintptr_t>(p.k) |
      reinterpret_cast<std::uintptr_t>(p.v) | reinterpret_cast<std::uintptr_t>(p.o);
  return p.dim % 4 == 0 && addresses % alignof(float4) == 0;
}

}  // namespace

extern "C" int attention(const float* q, const float* k, const float* v, float* o,
                         std::int64_t bh, std::int64_t seq, std::int64_t dim, void* stream) {
  const std::int64_t blocks = bh * ((seq + kQueries - 1) / kQueries);
  if (dim > kMaxDim || blocks > kMaxBlocks) return static_cast<int>(cudaErrorInvalidValue);
  if (blocks == 0) return 0;
  const Problem problem{q,
                        k,
                        v,
                        o,
                        seq,
                        static_cast<int>(dim),
                        static_cast<unsigned>(blocks),
                        static_cast<cudaStream_t>(stream)};
  const cudaError_t status = takes_packs_of_four(problem) ? launch<4>(problem) : launch<1>(problem);
  return static_cast<int>(status);
}
