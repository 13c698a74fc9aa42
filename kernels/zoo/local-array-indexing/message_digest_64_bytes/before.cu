// kernel: message_digest_64_bytes/before/cuda
// flaw: the sixteen words of the message are indexed by the loop, so they lie in local memory
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 128;
constexpr int kWords = 16;
constexpr int kSteps = 128;

__device__ __forceinline__ unsigned int rotate(unsigned int x, int bits) {
  return x << bits | x >> (32 - bits);
}

// A thread a message; word w of message i is at w * n + i.
__global__ void __launch_bounds__(kThreads)
    digest(const unsigned int* __restrict__ messages, unsigned int* __restrict__ digests,
           std::int64_t n) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  unsigned int words[kWords];
#pragma unroll
  for (int w = 0; w < kWords; ++w) words[w] = messages[w * n + i];
  unsigned int a = 0x2545f491u;
  unsigned int b = 0x9e3779b9u;
  unsigned int c = 0x85ebca6bu;
  for (int step = 0; step < kSteps; ++step) {
    const unsigned int early = words[(step + 1) % kWords];
    const unsigned int late = words[(step + 14) % kWords];
    const unsigned int word = words[step % kWords] + (rotate(early, 7) ^ early >> 3) +
                              words[(step + 9) % kWords] + (rotate(late, 15) ^ late >> 10);
    words[step % kWords] = word;
    const unsigned int mixed = rotate(a, 11) + ((a & b) ^ (~a & c)) + word;
    a = c + mixed;
    c = b;
    b = mixed ^ rotate(b, 19);
  }
  digests[i] = a ^ b ^ c;
}

}  // namespace

extern "C" int digest_messages(const int* messages, int* digests, std::int64_t n, void* stream) {
  const unsigned int blocks = static_cast<unsigned int>((n + kThreads - 1) / kThreads);
  digest<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      reinterpret_cast<const unsigned int*>(messages), reinterpret_cast<unsigned int*>(digests),
      n);
  return static_cast<int>(cudaGetLastError());
}
