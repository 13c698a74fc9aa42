// kernel: chacha20_keystream/byte-permutes/cuda
// change: rotations by 16 and 8 are byte permutations
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kWords = 16;

__device__ __forceinline__ std::uint32_t rotate(std::uint32_t x, int count) {
  return (x << count) | (x >> (32 - count));
}

__device__ __forceinline__ void mix(std::uint32_t& a, std::uint32_t& b, std::uint32_t& c,
                                    std::uint32_t& d) {
  a += b, d = __byte_perm(d ^ a, 0, 0x1032);
  c += d, b = rotate(b ^ c, 12);
  a += b, d = __byte_perm(d ^ a, 0, 0x2103);
  c += d, b = rotate(b ^ c, 7);
}

__global__ void __launch_bounds__(kThreads)
    make_blocks(const std::uint32_t* __restrict__ key, const std::uint32_t* __restrict__ nonce,
                const std::uint32_t* __restrict__ counters, std::uint32_t* __restrict__ keystream,
                int n) {
  const int block = blockIdx.x * kThreads + threadIdx.x;
  if (block >= n) return;
  std::uint32_t start[kWords] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
#pragma unroll
  for (int i = 0; i < 8; ++i) start[4 + i] = key[i];
  start[12] = counters[block];
#pragma unroll
  for (int i = 0; i < 3; ++i) start[13 + i] = nonce[i];
  std::uint32_t x[kWords];
#pragma unroll
  for (int i = 0; i < kWords; ++i) x[i] = start[i];
  for (int round = 0; round < 10; ++round) {
    mix(x[0], x[4], x[8], x[12]);
    mix(x[1], x[5], x[9], x[13]);
    mix(x[2], x[6], x[10], x[14]);
    mix(x[3], x[7], x[11], x[15]);
    mix(x[0], x[5], x[10], x[15]);
    mix(x[1], x[6], x[11], x[12]);
    mix(x[2], x[7], x[8], x[13]);
    mix(x[3], x[4], x[9], x[14]);
  }
  std::uint32_t* out = keystream + static_cast<std::int64_t>(block) * kWords;
#pragma unroll
  for (int i = 0; i < kWords; ++i) out[i] = x[i] + start[i];
}

}  // namespace

extern "C" int make_keystream(const std::uint32_t* key, const std::uint32_t* nonce,
                              const std::uint32_t* counters, std::uint32_t* keystream,
                              std::int64_t n, void* stream) {
  const int blocks = static_cast<int>((n + kThreads - 1) / kThreads);
  make_blocks<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      key, nonce, counters, keystream, static_cast<int>(n));
  return static_cast<int>(cudaGetLastError());
}
