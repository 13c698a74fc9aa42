// kernel: speck64_counter_stream/before/cuda
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kRounds = 27;
constexpr int kPairs = 1;  // pairs of blocks that a thread encrypts at once
constexpr int kTurns = 8;  // how often it does

__device__ __forceinline__ std::uint32_t rotate(std::uint32_t word, int bits) {
  return __funnelshift_l(word, word, bits);
}

// Block i of the data is combined with the encrypted counter {i, nonce}; two blocks are 16 bytes.
__global__ void __launch_bounds__(kThreads)
    encrypt_stream(const uint4* __restrict__ data, const std::uint32_t* __restrict__ round_keys,
                   const std::uint32_t* __restrict__ nonce, uint4* __restrict__ out,
                   std::uint32_t pairs) {
  std::uint32_t keys[kRounds];
#pragma unroll
  for (int i = 0; i < kRounds; ++i) keys[i] = round_keys[i];
  const std::uint32_t high = nonce[0];
  std::uint32_t first = blockIdx.x * (kThreads * kPairs * kTurns) + threadIdx.x;
  for (int turn = 0; turn < kTurns; ++turn, first += kThreads * kPairs) {
    std::uint32_t x[2 * kPairs], y[2 * kPairs];
#pragma unroll
    for (int k = 0; k < 2 * kPairs; ++k) {
      x[k] = high;
      y[k] = 2 * (first + k / 2 * kThreads) + k % 2;
    }
#pragma unroll
    for (int i = 0; i < kRounds; ++i) {
#pragma unroll
      for (int k = 0; k < 2 * kPairs; ++k) {
        x[k] = (rotate(x[k], 24) + y[k]) ^ keys[i];
        y[k] = rotate(y[k], 3) ^ x[k];
      }
    }
#pragma unroll
    for (int k = 0; k < kPairs; ++k) {
      const std::uint32_t pair = first + k * kThreads;
      if (pair >= pairs) return;
      const uint4 plain = data[pair];
      out[pair] = make_uint4(plain.x ^ y[2 * k], plain.y ^ x[2 * k], plain.z ^ y[2 * k + 1],
                             plain.w ^ x[2 * k + 1]);
    }
  }
}

}  // namespace

extern "C" int encrypt(const int* data, const int* round_keys, const int* nonce, int* out,
                       std::int64_t n, void* stream) {
  constexpr int kPerBlock = kThreads * kPairs * kTurns;
  const unsigned blocks = static_cast<unsigned>((n + kPerBlock - 1) / kPerBlock);
  encrypt_stream<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      reinterpret_cast<const uint4*>(data), reinterpret_cast<const std::uint32_t*>(round_keys),
      reinterpret_cast<const std::uint32_t*>(nonce), reinterpret_cast<uint4*>(out),
      static_cast<std::uint32_t>(n));
  return static_cast<int>(cudaGetLastError());
}
