// kernel: paged_kv_to_rows/before/cuda
// flaw: a thread looks up, loads and stores one token at a time
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kPageTokens = 16;
constexpr int kRowVectors = 64;  // 512 bf16 values of a token, 8 per vector
constexpr int kSplits = 8;

__global__ void __launch_bounds__(kRowVectors)
    gather_pages(const uint4* cache, const int* page_table, uint4* rows, int pages_per_sequence) {
  const int length = pages_per_sequence * kPageTokens;
  const std::int64_t sequence = blockIdx.x;
  const int lane = threadIdx.x;
  const int* pages = page_table + sequence * pages_per_sequence;
  uint4* out = rows + sequence * length * kRowVectors;
  for (int token = blockIdx.y; token < length; token += kSplits) {
    const std::int64_t page = pages[token / kPageTokens];
    const std::int64_t slot = page * kPageTokens + token % kPageTokens;
    out[static_cast<std::int64_t>(token) * kRowVectors + lane] = cache[slot * kRowVectors + lane];
  }
}

}  // namespace

extern "C" int gather_kv(const void* cache, const int* page_table, void* rows, std::int64_t pages,
                         std::int64_t sequences, std::int64_t pages_per_sequence,
                         void* stream) {
  (void)pages;
  const dim3 grid(static_cast<unsigned>(sequences), kSplits);
  gather_pages<<<grid, kRowVectors, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const uint4*>(cache), page_table, static_cast<uint4*>(rows),
      static_cast<int>(pages_per_sequence));
  return static_cast<int>(cudaGetLastError());
}
