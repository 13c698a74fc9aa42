// kernel: prefix_sum_tile_after_tile/sleeping-poll/cuda
// change: the waiting thread sleeps between two looks
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kRounds = 4;  // of a warp, 128 values each
constexpr int kTile = kWarps * kRounds * 128;
constexpr int kMaxTiles = 1 << 16;

struct Progress {
  unsigned next_tile;
  unsigned unused;
  unsigned long long tiles[kMaxTiles];  // the prefix in the low half; bit 32 says that it is there
};

__device__ Progress progress;

__device__ __forceinline__ int4 load_four(const int* __restrict__ values, int at, int n) {
  if (at + 3 < n) return *reinterpret_cast<const int4*>(values + at);
  return make_int4(at < n ? values[at] : 0, at + 1 < n ? values[at + 1] : 0,
                   at + 2 < n ? values[at + 2] : 0, 0);
}

__device__ __forceinline__ void store_four(int* __restrict__ sums, int at, int n, int4 four) {
  if (at + 3 < n) {
    *reinterpret_cast<int4*>(sums + at) = four;
    return;
  }
  if (at < n) sums[at] = four.x;
  if (at + 1 < n) sums[at + 1] = four.y;
  if (at + 2 < n) sums[at + 2] = four.z;
}

__device__ __forceinline__ unsigned long long read_word(int tile) {
  return *static_cast<volatile unsigned long long*>(&progress.tiles[tile]);
}

__device__ __forceinline__ void write_word(int tile, unsigned long long flag, int value) {
  *static_cast<volatile unsigned long long*>(&progress.tiles[tile]) =
      flag << 32 | static_cast<unsigned>(value);
}

// Publishes the sum up to and with this tile; returns the sum before it.
__device__ int find_prefix(int tile, int total) {
  int before = 0;
  if (tile > 0) {
    unsigned long long word = 0;
    word = read_word(tile - 1);
    while (word >> 32 == 0) {
      __nanosleep(100);
      word = read_word(tile - 1);
    }
    before = static_cast<int>(word);
  }
  write_word(tile, 1, before + total);
  return before;
}

__global__ void __launch_bounds__(kThreads)
    scan_tiles(const int* __restrict__ values, int* __restrict__ sums, int n) {
  __shared__ int of_warp[kWarps];
  __shared__ int own_tile, prefix;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) own_tile = atomicAdd(&progress.next_tile, 1u);
  __syncthreads();
  const int first = own_tile * kTile + warp * kRounds * 128 + lane * 4;
  int4 own[kRounds];
#pragma unroll
  for (int r = 0; r < kRounds; ++r) own[r] = load_four(values, first + r * 128, n);
  int sum = 0;
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    int4& four = own[r];
    four.y += four.x;
    four.z += four.y;
    four.w += four.z;
    int scanned = four.w;
    for (int step = 1; step < 32; step *= 2) {
      const int other = __shfl_up_sync(0xffffffffu, scanned, step);
      if (lane >= step) scanned += other;
    }
    const int base = sum + scanned - four.w;
    four.x += base;
    four.y += base;
    four.z += base;
    four.w += base;
    sum += __shfl_sync(0xffffffffu, scanned, 31);
  }
  if (lane == 0) of_warp[warp] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    int total = 0;
    for (int w = 0; w < kWarps; ++w) total += of_warp[w];
    prefix = find_prefix(own_tile, total);
  }
  __syncthreads();
  int base = prefix;
  for (int w = 0; w < warp; ++w) base += of_warp[w];
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    const int4 four = own[r];
    store_four(sums, first + r * 128, n,
               make_int4(four.x + base, four.y + base, four.z + base, four.w + base));
  }
}

}  // namespace

extern "C" int prefix_sums(const int* values, int* sums, std::int64_t n, void* stream) {
  const std::int64_t tiles = (n + kTile - 1) / kTile;
  if (tiles > kMaxTiles) return static_cast<int>(cudaErrorInvalidValue);
  void* state = nullptr;
  cudaGetSymbolAddress(&state, progress);
  cudaMemsetAsync(state, 0, 8 + 8 * tiles, static_cast<cudaStream_t>(stream));
  scan_tiles<<<static_cast<unsigned>(tiles), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      values, sums, static_cast<int>(n));
  return static_cast<int>(cudaGetLastError());
}
