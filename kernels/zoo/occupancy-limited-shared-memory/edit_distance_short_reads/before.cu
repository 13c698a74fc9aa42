// kernel: edit_distance_short_reads/before/cuda
// flaw: two rows of 4-byte cells a thread leave room for ten warps on an SM
#include <cuda_runtime.h>

#include <cstdint>

namespace {

using Cell = int;

constexpr int kThreads = 64;
constexpr int kMaxLength = 64;

// One thread aligns one pair; letter k of pair i is at k * n + i. A row of the table is interleaved
// by thread, so that neighbours lie side by side.
__global__ void __launch_bounds__(kThreads)
    edit_distance(const std::uint8_t* __restrict__ a, const std::uint8_t* __restrict__ b,
                  int* __restrict__ distance, std::int64_t m, std::int64_t n) {
  __shared__ Cell rows[2][(kMaxLength + 1) * kThreads];
  __shared__ std::uint8_t letters[kMaxLength * kThreads];
  const int length = static_cast<int>(m);
  const int t = threadIdx.x;
  const std::int64_t pair = static_cast<std::int64_t>(blockIdx.x) * kThreads + t;
  if (pair >= n) return;
  for (int j = 0; j < length; ++j) letters[j * kThreads + t] = b[j * n + pair];
  for (int j = 0; j <= length; ++j) rows[0][j * kThreads + t] = static_cast<Cell>(j);
  for (int i = 0; i < length; ++i) {
    const Cell* previous = rows[i & 1];
    Cell* current = rows[(i + 1) & 1];
    const std::uint8_t letter = a[i * n + pair];
    int diagonal = i;
    int left = i + 1;
    current[t] = static_cast<Cell>(left);
    for (int j = 0; j < length; ++j) {
      const int up = previous[(j + 1) * kThreads + t];
      const int replaced = diagonal + (letters[j * kThreads + t] != letter);
      left = min(min(up, left) + 1, replaced);
      diagonal = up;
      current[(j + 1) * kThreads + t] = static_cast<Cell>(left);
    }
  }
  distance[pair] = rows[length & 1][length * kThreads + t];
}

}  // namespace

extern "C" int edit_distances(const std::uint8_t* a, const std::uint8_t* b, int* distance,
                              std::int64_t m, std::int64_t n, void* stream) {
  const unsigned int blocks = static_cast<unsigned int>((n + kThreads - 1) / kThreads);
  edit_distance<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(a, b, distance, m, n);
  return static_cast<int>(cudaGetLastError());
}
