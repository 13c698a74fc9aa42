// kernel: local_alignment_sorted_targets/staged-targets/cuda
// change: a warp copies its target to shared memory first
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kQuery = 128;
constexpr int kCells = kQuery / 32;  // of a lane
constexpr int kRow = 512;            // letters of a row of targets
constexpr int kMatch = 3, kMismatch = -2, kGap = 4;
constexpr int kTargets = 16;         // of a warp

// Targets are sorted by length.
__device__ __forceinline__ int length_of(std::int64_t target, std::int64_t targets) {
  return 32 + static_cast<int>(480 * target * target * target / (targets * targets * targets));
}

// Each lane holds four letters of the query; the letters of the target pass from lane to lane.
__device__ int align(const int (&letters)[kCells], const signed char* target,
                     int length, int lane) {
  int left[kCells] = {};
  int corner = 0, best = 0;
  for (int step = 0; step < length + 31; ++step) {
    const int from_above = __shfl_up_sync(0xffffffffu, left[kCells - 1], 1);
    const int place = step - lane;
    if (place >= 0 && place < length) {
      const int letter = target[place];
      int above = lane == 0 ? 0 : from_above;
      int diagonal = corner;
      corner = above;
#pragma unroll
      for (int i = 0; i < kCells; ++i) {
        const int pair = diagonal + (letters[i] == letter ? kMatch : kMismatch);
        diagonal = left[i];
        above = max(max(pair, 0), max(above, left[i]) - kGap);
        left[i] = above;
        best = max(best, above);
      }
    }
  }
  return __reduce_max_sync(0xffffffffu, best);
}

__global__ void __launch_bounds__(kThreads)
    score_targets(const signed char* __restrict__ query, const signed char* __restrict__ targets,
                  int* __restrict__ scores, int count) {
  __shared__ __align__(16) signed char rows[kThreads / 32][kRow];
  const int lane = threadIdx.x % 32;
  const int warp = (blockIdx.x * kThreads + threadIdx.x) / 32;
  int letters[kCells];
#pragma unroll
  for (int i = 0; i < kCells; ++i) letters[i] = query[lane * kCells + i];
  const int first = warp * kTargets, last = min(first + kTargets, count);
  for (int target = first; target < last; ++target) {
    const auto* from =
        reinterpret_cast<const int*>(targets + static_cast<std::int64_t>(target) * kRow);
    signed char* row = rows[threadIdx.x / 32];
    __syncwarp();
    for (int i = lane; i < kRow / 4; i += 32) reinterpret_cast<int*>(row)[i] = from[i];
    __syncwarp();
    const int score = align(letters, row, length_of(target, count), lane);
    if (lane == 0) scores[target] = score;
  }
}

}  // namespace

extern "C" int align_all(const signed char* query, const signed char* targets, int* scores,
                         std::int64_t count, void* stream) {
  constexpr int kPerBlock = kThreads / 32 * kTargets;
  const int blocks = static_cast<int>((count + kPerBlock - 1) / kPerBlock);
  score_targets<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      query, targets, scores, static_cast<int>(count));
  return static_cast<int>(cudaGetLastError());
}
