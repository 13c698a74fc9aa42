// kernel: half_gemm_wmma_tiles_64x128/before/cuda
// flaw: the rows of both shared tiles start in the same bank
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <cstdint>

namespace {

namespace wmma = nvcuda::wmma;

constexpr int kThreads = 128;
constexpr int kTileM = 64;
constexpr int kTileN = 128;
constexpr int kTileK = 64;
constexpr int kWarpM = 32;
constexpr int kWarpN = 64;
constexpr int kLdA = kTileK;
constexpr int kLdB = kTileN;
constexpr int kVec = 8;

using FragmentA = wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major>;
using FragmentB = wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major>;
using FragmentC = wmma::fragment<wmma::accumulator, 16, 16, 16, float>;

__global__ void __launch_bounds__(kThreads)
    multiply(const __half* __restrict__ a, const __half* __restrict__ b, float* __restrict__ c,
             int n, int k) {
  __shared__ __align__(32) __half tile_a[kTileM * kLdA];
  __shared__ __align__(32) __half tile_b[kTileK * kLdB];
  const int warp = threadIdx.x / 32;
  const int warp_row = warp / 2 * kWarpM;
  const int warp_col = warp % 2 * kWarpN;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.y) * kTileM;
  const std::int64_t col = static_cast<std::int64_t>(blockIdx.x) * kTileN;

  FragmentC sum[kWarpM / 16][kWarpN / 16];
  for (auto& line : sum) {
    for (auto& each : line) wmma::fill_fragment(each, 0.0f);
  }

  for (int start = 0; start < k; start += kTileK) {
    for (int i = threadIdx.x; i < kTileM * kTileK / kVec; i += kThreads) {
      const int r = i / (kTileK / kVec);
      const int x = i % (kTileK / kVec) * kVec;
      *reinterpret_cast<uint4*>(&tile_a[r * kLdA + x]) =
          *reinterpret_cast<const uint4*>(&a[(row + r) * k + start + x]);
    }
    for (int i = threadIdx.x; i < kTileK * kTileN / kVec; i += kThreads) {
      const int r = i / (kTileN / kVec);
      const int x = i % (kTileN / kVec) * kVec;
      *reinterpret_cast<uint4*>(&tile_b[r * kLdB + x]) = *reinterpret_cast<const uint4*>(
          &b[static_cast<std::int64_t>(start + r) * n + col + x]);
    }
    __syncthreads();
    for (int step = 0; step < kTileK; step += 16) {
      FragmentA left[kWarpM / 16];
      FragmentB right[kWarpN / 16];
      for (int i = 0; i < kWarpM / 16; ++i) {
        wmma::load_matrix_sync(left[i], &tile_a[(warp_row + i * 16) * kLdA + step], kLdA);
      }
      for (int j = 0; j < kWarpN / 16; ++j) {
        wmma::load_matrix_sync(right[j], &tile_b[step * kLdB + warp_col + j * 16], kLdB);
      }
      for (int i = 0; i < kWarpM / 16; ++i) {
        for (int j = 0; j < kWarpN / 16; ++j) {
          wmma::mma_sync(sum[i][j], left[i], right[j], sum[i][j]);
        }
      }
    }
    __syncthreads();
  }

  for (int i = 0; i < kWarpM / 16; ++i) {
    for (int j = 0; j < kWarpN / 16; ++j) {
      float* out = c + (row + warp_row + i * 16) * n + col + warp_col + j * 16;
      wmma::store_matrix_sync(out, sum[i][j], n, wmma::mem_row_major);
    }
  }
}

}  // namespace

extern "C" int half_gemm(const __half* a, const __half* b, float* c, std::int64_t m,
                         std::int64_t n, std::int64_t k, void* stream) {
  const dim3 grid(static_cast<unsigned>(n / kTileN), static_cast<unsigned>(m / kTileM));
  multiply<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      a, b, c, static_cast<int>(n), static_cast<int>(k));
  return static_cast<int>(cudaGetLastError());
}
