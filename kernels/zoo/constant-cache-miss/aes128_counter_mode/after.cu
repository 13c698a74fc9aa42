// kernel: aes128_counter_mode/after/cuda
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kRounds = 10;

struct Table {
  std::uint32_t words[256];
};

constexpr std::uint32_t twice(std::uint32_t byte) {
  return ((byte << 1) ^ ((byte >> 7) * 0x11Bu)) & 0xFFu;
}

// The columns of SubBytes and MixColumns together: {2 s, s, s, 3 s} for each byte.
constexpr Table make_table() {
  Table table{};
  std::uint32_t power = 1, inverse = 1;  // of 3, and of its inverse
  for (int i = 0; i < 255; ++i) {
    std::uint32_t s = inverse;
    for (int bits = 1; bits < 5; ++bits) s ^= (inverse << bits) | (inverse >> (8 - bits));
    s = (s ^ 0x63u) & 0xFFu;
    table.words[power] = (twice(s) << 24) | (s << 16) | (s << 8) | (twice(s) ^ s);
    power ^= twice(power);
    inverse ^= inverse << 1;
    inverse ^= inverse << 2;
    inverse ^= inverse << 4;
    inverse &= 0xFFu;
    if (inverse & 0x80u) inverse ^= 0x09u;
  }
  table.words[0] = (twice(0x63u) << 24) | 0x636300u | (twice(0x63u) ^ 0x63u);
  return table;
}

__constant__ Table kTable = make_table();

__device__ __forceinline__ std::uint32_t look_up(const std::uint32_t* words, std::uint32_t word,
                                                 int shift) {
  return words[(word >> shift) & 0xFFu];
}

__device__ __forceinline__ std::uint32_t mix(const std::uint32_t* words, std::uint32_t a,
                                             std::uint32_t b, std::uint32_t c, std::uint32_t d) {
  const std::uint32_t second = look_up(words, b, 16), third = look_up(words, c, 8);
  const std::uint32_t fourth = look_up(words, d, 0);
  return look_up(words, a, 24) ^ __funnelshift_r(second, second, 8) ^
         __funnelshift_r(third, third, 16) ^ __funnelshift_r(fourth, fourth, 24);
}

__device__ __forceinline__ std::uint32_t substitute(const std::uint32_t* words,
                                                    std::uint32_t a, std::uint32_t b,
                                                    std::uint32_t c, std::uint32_t d) {
  return (look_up(words, a, 24) & 0xFF0000u) << 8 | (look_up(words, b, 16) & 0xFF0000u) |
         (look_up(words, c, 8) & 0xFF00u) | ((look_up(words, d, 0) >> 8) & 0xFFu);
}

// Block i of the data is combined with the encrypted counter {nonce, i}; words are big-endian.
__global__ void __launch_bounds__(kThreads)
    encrypt_blocks(const uint4* __restrict__ data, const std::uint32_t* __restrict__ keys,
                   const std::uint32_t* __restrict__ nonce, uint4* __restrict__ out, int n) {
  __shared__ std::uint32_t words[256];
  for (int i = threadIdx.x; i < 256; i += kThreads) words[i] = kTable.words[i];
  __syncthreads();
  const int block = blockIdx.x * kThreads + threadIdx.x;
  if (block >= n) return;
  std::uint32_t a = nonce[0] ^ keys[0], b = nonce[1] ^ keys[1];
  std::uint32_t c = nonce[2] ^ keys[2], d = static_cast<std::uint32_t>(block) ^ keys[3];
#pragma unroll
  for (int round = 1; round < kRounds; ++round) {
    const std::uint32_t next_a = mix(words, a, b, c, d) ^ keys[4 * round];
    const std::uint32_t next_b = mix(words, b, c, d, a) ^ keys[4 * round + 1];
    const std::uint32_t next_c = mix(words, c, d, a, b) ^ keys[4 * round + 2];
    d = mix(words, d, a, b, c) ^ keys[4 * round + 3];
    a = next_a;
    b = next_b;
    c = next_c;
  }
  const uint4 plain = data[block];
  out[block] = make_uint4(plain.x ^ substitute(words, a, b, c, d) ^ keys[4 * kRounds],
                          plain.y ^ substitute(words, b, c, d, a) ^ keys[4 * kRounds + 1],
                          plain.z ^ substitute(words, c, d, a, b) ^ keys[4 * kRounds + 2],
                          plain.w ^ substitute(words, d, a, b, c) ^ keys[4 * kRounds + 3]);
}

}  // namespace

extern "C" int encrypt(const int* data, const int* keys, const int* nonce, int* out,
                       std::int64_t n, void* stream) {
  const int blocks = static_cast<int>((n + kThreads - 1) / kThreads);
  encrypt_blocks<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      reinterpret_cast<const uint4*>(data), reinterpret_cast<const std::uint32_t*>(keys),
      reinterpret_cast<const std::uint32_t*>(nonce), reinterpret_cast<uint4*>(out),
      static_cast<int>(n));
  return static_cast<int>(cudaGetLastError());
}
