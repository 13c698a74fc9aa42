// kernel: crc32_bitwise_blocks/after/cuda
// change: a table of 256 remainders in shared memory replaces 8 steps by one lookup
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kWords = 128;
constexpr std::uint32_t kPolynomial = 0xedb88320u;

__global__ void __launch_bounds__(kThreads)
    checksum_blocks(const std::uint32_t* __restrict__ words, std::uint32_t* __restrict__ checksums,
                    int n) {
  __shared__ std::uint32_t table[256];
  for (int byte = threadIdx.x; byte < 256; byte += kThreads) {
    std::uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit) {
      remainder = remainder & 1 ? (remainder >> 1) ^ kPolynomial : remainder >> 1;
    }
    table[byte] = remainder;
  }
  __syncthreads();
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= n) return;
  std::uint32_t crc = 0xffffffffu;
#pragma unroll 4
  for (int w = 0; w < kWords; ++w) {
    crc ^= words[static_cast<std::int64_t>(w) * n + i];
#pragma unroll
    for (int byte = 0; byte < 4; ++byte) crc = (crc >> 8) ^ table[crc & 255];
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
