// kernel: sha256_common_prefix/more-warps/cuda
// change: 16 blocks of 128 threads are to fit an SM
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 128;
constexpr int kPrefixBlocks = 2;
constexpr std::uint32_t kBits = (kPrefixBlocks * 64 + 32) * 8;

__constant__ std::uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
    0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
    0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
    0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
    0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
    0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

__device__ __forceinline__ std::uint32_t rotate(std::uint32_t x, int count) {
  return (x >> count) | (x << (32 - count));
}

struct State {
  std::uint32_t word[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                           0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
};

__device__ __forceinline__ void compress(State& state, std::uint32_t (&w)[16]) {
  std::uint32_t a = state.word[0], b = state.word[1], c = state.word[2], d = state.word[3];
  std::uint32_t e = state.word[4], f = state.word[5], g = state.word[6], h = state.word[7];
#pragma unroll 1
  for (int start = 0; start < 64; start += 16) {
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      if (start > 0) {
        const std::uint32_t early = w[(i + 1) % 16], late = w[(i + 14) % 16];
        w[i] += (rotate(early, 7) ^ rotate(early, 18) ^ (early >> 3)) + w[(i + 9) % 16] +
                (rotate(late, 17) ^ rotate(late, 19) ^ (late >> 10));
      }
      const std::uint32_t first = h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) +
                                  ((e & f) ^ (~e & g)) + round_constants[start + i] + w[i];
      const std::uint32_t second =
          (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + first;
      d = c, c = b, b = a, a = first + second;
    }
  }
  state.word[0] += a, state.word[1] += b, state.word[2] += c, state.word[3] += d;
  state.word[4] += e, state.word[5] += f, state.word[6] += g, state.word[7] += h;
}

__device__ __forceinline__ void load_words(const int4* source, std::uint32_t* w, int quads) {
#pragma unroll
  for (int q = 0; q < quads; ++q) {
    const int4 four = source[q];
    w[4 * q] = four.x, w[4 * q + 1] = four.y, w[4 * q + 2] = four.z, w[4 * q + 3] = four.w;
  }
}

__global__ void __launch_bounds__(kThreads, 16)
    hash_each_item(const int4* __restrict__ prefix, const int4* __restrict__ items,
                   int4* __restrict__ digests, int n) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= n) return;
  State state;
  std::uint32_t w[16];
#pragma unroll 1
  for (int block = 0; block <= kPrefixBlocks; ++block) {
    if (block < kPrefixBlocks) {
      load_words(prefix + 4 * block, w, 4);
    } else {
      load_words(items + 2 * static_cast<std::int64_t>(i), w, 2);
      w[8] = 0x80000000u;
#pragma unroll
      for (int k = 9; k < 15; ++k) w[k] = 0;
      w[15] = kBits;
    }
    compress(state, w);
  }
  int4* digest = digests + 2 * static_cast<std::int64_t>(i);
  digest[0] = make_int4(state.word[0], state.word[1], state.word[2], state.word[3]);
  digest[1] = make_int4(state.word[4], state.word[5], state.word[6], state.word[7]);
}

}  // namespace

extern "C" int hash_items(const int4* prefix, const int4* items, int4* digests, std::int64_t n,
                          void* stream) {
  const int blocks = static_cast<int>((n + kThreads - 1) / kThreads);
  hash_each_item<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      prefix, items, digests, static_cast<int>(n));
  return static_cast<int>(cudaGetLastError());
}
