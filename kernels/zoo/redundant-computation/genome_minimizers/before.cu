// kernel: genome_minimizers/before/cuda
#include <cuda_runtime.h>

#include <climits>
#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kLetters = 15;  // of a word, two bits each
constexpr int kWindow = 24;   // words
constexpr std::uint32_t kMask = (1u << (2 * kLetters)) - 1;

__device__ __forceinline__ int hash(std::uint32_t word) {
  std::uint32_t mixed = word * 0x9E3779B1u;
  mixed ^= mixed >> 15;
  mixed *= 0x85EBCA77u;
  mixed ^= mixed >> 13;
  return static_cast<int>(mixed >> 1);
}

// The least hash of the words that begin at a letter or at one of the 23 after it.
__global__ void __launch_bounds__(kThreads)
    find_minimizers(const std::uint8_t* __restrict__ letters, int* __restrict__ minimizers,
                    int n) {
  const int first = blockIdx.x * kThreads + threadIdx.x;
  if (first >= n) return;
  const int words = max(min(kWindow, n - kLetters + 1 - first), 0);
  std::uint32_t word = 0;
  for (int k = 0; k < kLetters - 1 && first + k < n; ++k) {
    word = (word << 2) | letters[first + k];
  }
  int least = INT_MAX;
  for (int k = 0; k < words; ++k) {
    word = ((word << 2) | letters[first + kLetters - 1 + k]) & kMask;
    least = min(least, hash(word));
  }
  minimizers[first] = least;
}

}  // namespace

extern "C" int minimize(const std::uint8_t* letters, int* minimizers, std::int64_t n,
                        void* stream) {
  const int blocks = static_cast<int>((n + kThreads - 1) / kThreads);
  find_minimizers<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      letters, minimizers, static_cast<int>(n));
  return static_cast<int>(cudaGetLastError());
}
