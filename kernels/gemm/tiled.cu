// kernel: gemm/tiled/cuda
// shapes: a (m, k) float32 contiguous, b (k, n) float32 contiguous -> c (m, n) float32 contiguous; m >= 0, n >= 0, k >= 0
// launch: grid ceil(m / 128) * ceil(n / 128), block 256; one block per tile of 128 x 128 outputs, 8 x 8 per thread
// shared: static; 16640 B, two stages of a 128 x 8 tile of a, transposed and padded, and an 8 x 128 tile of b
// work: algorithm 2 k FLOP per output and 4 B per element of a, b and c; here each element of a is read ceil(n / 128) times and of b ceil(m / 128) times, and 16 floats of shared memory serve 64 multiply-adds
// roof: FP32 FMA units; 683 FLOP/B at 4096 is far right of the ridge
// tolerance: float32 by the reference's own error in float32, see kernel.yaml
// measured: 3.32 ms at xlarge, session 2026-11-21-gemm
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kWarp = 32;
constexpr int kTileM = 128;
constexpr int kTileN = 128;
constexpr int kTileK = 8;
constexpr int kThreadM = 8;
constexpr int kThreadN = 8;
// With 4 more floats per row the transposing stores of a warp fall into 32 different banks.
constexpr int kPad = 4;
constexpr std::int64_t kMaxBlocks = 2147483647;

struct Stage {
  float a[kTileK][kTileM + kPad];
  float b[kTileK][kTileN];
};

__device__ std::int64_t clamp_to(std::int64_t value, int most) {
  return value < most ? value : most;
}

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

// A thread's share of one stage on its way to shared memory. It waits in registers, so that the
// loads of the next stage run while this one is multiplied.
template <int kWidth>
class Carrier {
 public:
  // a and b: the first element of the block's rows of a, of its columns of b.
  __device__ Carrier(const float* a, const float* b, std::int64_t n, std::int64_t k, int rows,
                     int columns)
      : a_(a + a_row() * k + a_depth()),
        b_(b + b_depth() * n + b_column()),
        b_step_(kTileK * n),
        has_row_(a_row() < rows),
        b_left_(columns - b_column()) {}

  // depth: how far the matrices go on from here, at most kTileK.
  __device__ void fetch(int depth) {
    held_a_ = load_four<kWidth>(a_, has_row_ ? depth - a_depth() : 0);
    held_b_ = load_four<kWidth>(b_, b_depth() < depth ? b_left_ : 0);
    a_ += kTileK;
    b_ += b_step_;
  }

  __device__ void deliver(Stage& stage) const {
    stage.a[a_depth() + 0][a_row()] = held_a_.x;
    stage.a[a_depth() + 1][a_row()] = held_a_.y;
    stage.a[a_depth() + 2][a_row()] = held_a_.z;
    stage.a[a_depth() + 3][a_row()] = held_a_.w;
    *reinterpret_cast<float4*>(&stage.b[b_depth()][b_column()]) = held_b_;
  }

 private:
  // 128 rows of two packs make a tile of a; 8 rows of 32 packs make one of b.
  __device__ static int a_row() { return threadIdx.x / 2; }
  __device__ static int a_depth() { return threadIdx.x % 2 * 4; }
  __device__ static int b_depth() { return threadIdx.x / 32; }
  __device__ static int b_column() { return threadIdx.x % 32 * 4; }

  const float* a_;
  const float* b_;
  std::int64_t b_step_;
  bool has_row_;
  int b_left_;
  float4 held_a_;
  float4 held_b_;
};

// Two groups of four neighbours, ``apart`` from each other: each group is one 16-byte load.
__device__ void load_eight(const float* source, int apart, float (&found)[8]) {
#pragma unroll
  for (int group = 0; group < 2; ++group) {
    const float4 four = *reinterpret_cast<const float4*>(source + group * apart);
    found[4 * group + 0] = four.x;
    found[4 * group + 1] = four.y;
    found[4 * group + 2] = four.z;
    found[4 * group + 3] = four.w;
  }
}

// A warp computes 32 x 64 outputs. Its lanes lie 4 x 8, so that one load of a fragment touches
// 4 or 8 different 16-byte words of shared memory; the rest are broadcasts.
constexpr int kApartM = 16;
constexpr int kApartN = 32;

__device__ int first_row() { return threadIdx.x / kWarp / 2 * 32 + threadIdx.x % kWarp / 8 * 4; }

__device__ int first_column() { return threadIdx.x / kWarp % 2 * 64 + threadIdx.x % 8 * 4; }

__device__ void multiply(const Stage& stage, float (&sums)[kThreadM][kThreadN]) {
// Unrolled further it needs more than the 128 registers that let two blocks share an SM.
#pragma unroll 2
  for (int depth = 0; depth < kTileK; ++depth) {
    float a[kThreadM];
    float b[kThreadN];
    load_eight(&stage.a[depth][first_row()], kApartM, a);
    load_eight(&stage.b[depth][first_column()], kApartN, b);
#pragma unroll
    for (int i = 0; i < kThreadM; ++i) {
#pragma unroll
      for (int j = 0; j < kThreadN; ++j) {
        sums[i][j] += a[i] * b[j];
      }
    }
  }
}

// c: the first element of the block's tile.
template <int kWidth>
__device__ void write(float* c, std::int64_t n, int rows, int columns,
                      const float (&sums)[kThreadM][kThreadN]) {
#pragma unroll
  for (int i = 0; i < kThreadM; ++i) {
    const int row = first_row() + i / 4 * kApartM + i % 4;
    if (row >= rows) continue;
#pragma unroll
    for (int j = 0; j < kThreadN; j += 4) {
      const int column = first_column() + j / 4 * kApartN;
      store_four<kWidth>(
          c + row * n + column, columns - column,
          make_float4(sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]));
    }
  }
}

// Two blocks on an SM: while one waits at its barrier, the other multiplies.
template <int kWidth>
__global__ void __launch_bounds__(kThreads, 2)
    gemm_block_per_tile(const float* __restrict__ a, const float* __restrict__ b,
                        float* __restrict__ c, std::int64_t m, std::int64_t n, std::int64_t k) {
  __shared__ alignas(16) Stage stages[2];
  const std::int64_t tiles_n = (n + kTileN - 1) / kTileN;
  const std::int64_t row0 = blockIdx.x / tiles_n * kTileM;
  const std::int64_t column0 = blockIdx.x % tiles_n * kTileN;
  const int rows = static_cast<int>(clamp_to(m - row0, kTileM));
  const int columns = static_cast<int>(clamp_to(n - column0, kTileN));

  Carrier<kWidth> carrier(a + row0 * k, b + column0, n, k, rows, columns);
  carrier.fetch(static_cast<int>(clamp_to(k, kTileK)));
  carrier.deliver(stages[0]);
  __syncthreads();

  float sums[kThreadM][kThreadN] = {};
  int current = 0;
  for (std::int64_t left = k; left > 0; left -= kTileK) {
    const bool more = left > kTileK;
    if (more) carrier.fetch(static_cast<int>(clamp_to(left - kTileK, kTileK)));
    multiply(stages[current], sums);
    // Nobody reads the other stage any more: the last barrier came after its last use.
    if (more) carrier.deliver(stages[1 - current]);
    __syncthreads();
    current = 1 - current;
  }
  write<kWidth>(c + row0 * n + column0, n, rows, columns, sums);
}

bool takes_packs_of_four(const float* a, const float* b, const float* c, std::int64_t n,
                         std::int64_t k) {
  const auto addresses = reinterpret_cast<std::uintptr_t>(a) |
                         reinterpret_cast<std::uintptr_t>(b) |
                         reinterpret_cast<std::uintptr_t>(c);
  return n % 4 == 0 && k % 4 == 0 && addresses % alignof(float4) == 0;
}

}  // namespace

extern "C" int gemm(const float* a, const float* b, float* c, std::int64_t m, std::int64_t n,
                    std::int64_t k, void* stream) {
  if (m == 0 || n == 0) return 0;
  const std::int64_t blocks = (m + kTileM - 1) / kTileM * ((n + kTileN - 1) / kTileN);
  if (blocks > kMaxBlocks) return static_cast<int>(cudaErrorInvalidValue);
  const auto grid = static_cast<unsigned>(blocks);
  const auto queue = static_cast<cudaStream_t>(stream);
  if (takes_packs_of_four(a, b, c, n, k)) {
    gemm_block_per_tile<4><<<grid, kThreads, 0, queue>>>(a, b, c, m, n, k);
  } else {
    gemm_block_per_tile<1><<<grid, kThreads, 0, queue>>>(a, b, c, m, n, k);
  }
  return static_cast<int>(cudaGetLastError());
}
