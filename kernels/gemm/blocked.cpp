// kernel: gemm/blocked/cpu
// shapes: a (m, k) float32 contiguous, b (k, n) float32 contiguous -> c (m, n) float32 contiguous; m >= 0, n >= 0, k >= 0
// launch: OpenMP, blocks of 32 rows split statically over the threads; one thread below 65536 multiply-adds
// shared: none
// work: algorithm 2 k FLOP per output and 4 B per element of a, b and c; here the same FLOP, b read once per 32 rows, 6 vector accesses of L1 and L2 per 4 vector multiply-adds
// roof: FMA units for the algorithm; this variant is held below them by the loads of its inner loop
// tolerance: float32 by the reference's own error in float32, see kernel.yaml
// measured: 306 us at small, session 2026-11-21-gemm
#include <algorithm>
#include <cstdint>

// What kb tune varies.
#ifndef BLOCK_M
#define BLOCK_M 32
#endif
#ifndef BLOCK_K
#define BLOCK_K 128
#endif
#ifndef BLOCK_N
#define BLOCK_N 512
#endif

namespace {

// Below this size starting the threads costs more than the work they share.
constexpr std::int64_t kParallelProducts = 65536;

constexpr std::int64_t kBlockM = BLOCK_M;
// 128 rows of 512 floats of b are 256 KiB: they stay in the L2 cache while 32 rows of a pass.
constexpr std::int64_t kBlockK = BLOCK_K;
constexpr std::int64_t kBlockN = BLOCK_N;
constexpr std::int64_t kStep = 4;

// Four rows of b at a time, or each multiply-add would need a load and a store of c.
void add_four_rows(const float* a, const float* __restrict b, float* __restrict c,
                   std::int64_t stride, std::int64_t width) {
  const float a0 = a[0];
  const float a1 = a[1];
  const float a2 = a[2];
  const float a3 = a[3];
#pragma omp simd
  for (std::int64_t j = 0; j < width; ++j) {
    c[j] += a0 * b[j] + a1 * b[j + stride] + a2 * b[j + 2 * stride] + a3 * b[j + 3 * stride];
  }
}

void add_row(float a, const float* __restrict b, float* __restrict c, std::int64_t width) {
#pragma omp simd
  for (std::int64_t j = 0; j < width; ++j) {
    c[j] += a * b[j];
  }
}

// One pass over a block of rows: columns of c from j0, depth from l0.
struct Block {
  std::int64_t rows;
  std::int64_t j0;
  std::int64_t width;
  std::int64_t l0;
  std::int64_t depth;
};

// a and c: the first of the block's rows.
void multiply_block(const float* a, const float* b, float* c, std::int64_t n, std::int64_t k,
                    const Block& block) {
  for (std::int64_t i = 0; i < block.rows; ++i) {
    const float* a_row = a + i * k + block.l0;
    const float* b_part = b + block.l0 * n + block.j0;
    float* c_part = c + i * n + block.j0;
    std::int64_t l = 0;
    for (; l + kStep <= block.depth; l += kStep) {
      add_four_rows(a_row + l, b_part + l * n, c_part, n, block.width);
    }
    for (; l < block.depth; ++l) {
      add_row(a_row[l], b_part + l * n, c_part, block.width);
    }
  }
}

void multiply_rows(const float* a, const float* b, float* c, std::int64_t rows, std::int64_t n,
                   std::int64_t k) {
  std::fill(c, c + rows * n, 0.0f);
  for (std::int64_t j0 = 0; j0 < n; j0 += kBlockN) {
    const std::int64_t width = std::min(kBlockN, n - j0);
    for (std::int64_t l0 = 0; l0 < k; l0 += kBlockK) {
      const Block block{rows, j0, width, l0, std::min(kBlockK, k - l0)};
      multiply_block(a, b, c, n, k, block);
    }
  }
}

}  // namespace

extern "C" int gemm(const float* a, const float* b, float* c, std::int64_t m, std::int64_t n,
                    std::int64_t k, void* /*stream*/) {
#pragma omp parallel for schedule(static) if (m * n * k >= kParallelProducts)
  for (std::int64_t i0 = 0; i0 < m; i0 += kBlockM) {
    multiply_rows(a + i0 * k, b, c + i0 * n, std::min(kBlockM, m - i0), n, k);
  }
  return 0;
}
