// kernel: levenshtein_read_pairs/after/cuda
// change: the loops over the text cover all 32 letters unrolled, so the arrays are registers
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 128;
constexpr int kLength = 32;

__global__ void __launch_bounds__(kThreads)
    edit_distance(const std::uint8_t* __restrict__ pattern, const std::uint8_t* __restrict__ text,
                  const int* __restrict__ pattern_trim, const int* __restrict__ text_trim,
                  int* __restrict__ distance, std::int64_t n) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  const int rows = kLength - pattern_trim[i];
  const int cols = kLength - text_trim[i];
  std::uint8_t letters[kLength];
  int costs[kLength + 1];
#pragma unroll
  for (int j = 0; j < kLength; ++j) letters[j] = text[j * n + i];
#pragma unroll
  for (int j = 0; j <= kLength; ++j) costs[j] = j;
  for (int r = 0; r < rows; ++r) {
    const std::uint8_t letter = pattern[r * n + i];
    int diagonal = costs[0];
    costs[0] = r + 1;
#pragma unroll
    for (int j = 0; j < kLength; ++j) {
      const int above = costs[j + 1];
      const int replaced = diagonal + (letter != letters[j] ? 1 : 0);
      costs[j + 1] = min(min(above, costs[j]) + 1, replaced);
      diagonal = above;
    }
  }
  int result = costs[0];
#pragma unroll
  for (int j = 1; j <= kLength; ++j) {
    if (j == cols) result = costs[j];
  }
  distance[i] = result;
}

}  // namespace

extern "C" int edit_distances(const std::uint8_t* pattern, const std::uint8_t* text,
                              const int* pattern_trim, const int* text_trim, int* distance,
                              std::int64_t n, void* stream) {
  const unsigned blocks = static_cast<unsigned>((n + kThreads - 1) / kThreads);
  edit_distance<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      pattern, text, pattern_trim, text_trim, distance, n);
  return static_cast<int>(cudaGetLastError());
}
