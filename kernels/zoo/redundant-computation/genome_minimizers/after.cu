// kernel: genome_minimizers/after/cuda
#include <cuda_runtime.h>

#include <climits>
#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kLetters = 15;  // of a word, two bits each
constexpr int kWindow = 24;   // words

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
  __shared__ int hashes[kThreads + kWindow];
  const int start = blockIdx.x * kThreads;
  for (int i = threadIdx.x; i < kThreads + kWindow; i += kThreads) {
    const int at = start + i;
    int value = INT_MAX;
    if (at + kLetters <= n) {
      std::uint32_t word = 0;
#pragma unroll
      for (int k = 0; k < kLetters; ++k) word = (word << 2) | letters[at + k];
      value = hash(word);
    }
    hashes[i] = value;
  }
  __syncthreads();
  const int first = start + threadIdx.x;
  if (first >= n) return;
  int least = INT_MAX;
#pragma unroll
  for (int k = 0; k < kWindow; ++k) least = min(least, hashes[threadIdx.x + k]);
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
