// kernel: crc32_bitwise_blocks/before/cuda
// computes: the CRC-32 of each block of 512 bytes
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kWords = 128;
constexpr std::uint32_t kPolynomial = 0xedb88320u;

__global__ void __launch_bounds__(kThreads)
    checksum_blocks(const std::uint32_t* __restrict__ words, std::uint32_t* __restrict__ checksums,
                    int n) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= n) return;
  std::uint32_t crc = 0xffffffffu;
#pragma unroll 4
  for (int w = 0; w < kWords; ++w) {
    crc ^= words[static_cast<std::int64_t>(w) * n + i];
#pragma unroll
    for (int bit = 0; bit < 32; ++bit) {
      crc = crc & 1 ? (crc >> 1) ^ kPolynomial : crc >> 1;
    }
  }
  checksums[i] = ~crc;
}

}  // namespace

extern "C" int compute_checksums(const std::uint32_t* words, std::uint32_t* checksums,
                                 std::int64_t n, void* stream) {
  const int blocks = static_cast<int>((n + kThreads - 1) / kThreads);
  checksum_blocks<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      words, checksums, static_cast<int>(n));
  return static_cast<int>(cudaGetLastError());
}
