// kernel: hamming_search_one_query/before/cuda
// flaw: each code is read from L2 once for every query
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kWords = 8;
constexpr int kChunk = 2048;
constexpr int kQueries = 1;

__global__ void __launch_bounds__(kThreads)
    search_chunk(const int* __restrict__ codes, const int* __restrict__ queries,
                 int* __restrict__ best, int q, int chunks) {
  __shared__ __align__(16) int own[kQueries][kWords];
  __shared__ int of_warp[kQueries][kThreads / 32];
  const int first_query = blockIdx.y * kQueries;
  for (int i = threadIdx.x; i < kQueries * kWords; i += kThreads) {
    const int query = first_query + i / kWords;
    own[i / kWords][i % kWords] = query < q ? queries[query * kWords + i % kWords] : 0;
  }
  __syncthreads();
  int least[kQueries];
#pragma unroll
  for (int j = 0; j < kQueries; ++j) least[j] = 0x7fffffff;
  const int* chunk = codes + static_cast<std::int64_t>(blockIdx.x) * kChunk;
  const std::int64_t word_stride = static_cast<std::int64_t>(chunks) * kChunk;
#pragma unroll 2
  for (int i = threadIdx.x; i < kChunk; i += kThreads) {
    int word[kWords];
#pragma unroll
    for (int w = 0; w < kWords; ++w) word[w] = chunk[w * word_stride + i];
#pragma unroll
    for (int j = 0; j < kQueries; ++j) {
      int distance = 0;
#pragma unroll
      for (int w = 0; w < kWords; ++w) distance += __popc(word[w] ^ own[j][w]);
      least[j] = min(least[j], distance * kChunk + i);
    }
  }
#pragma unroll
  for (int j = 0; j < kQueries; ++j) {
    const int warp_least = __reduce_min_sync(0xffffffffu, least[j]);
    if (threadIdx.x % 32 == 0) of_warp[j][threadIdx.x / 32] = warp_least;
  }
  __syncthreads();
  if (threadIdx.x < kQueries && first_query + threadIdx.x < q) {
    int result = of_warp[threadIdx.x][0];
    for (int w = 1; w < kThreads / 32; ++w) result = min(result, of_warp[threadIdx.x][w]);
    best[(first_query + threadIdx.x) * chunks + blockIdx.x] = result;
  }
}

}  // namespace

extern "C" int hamming_search(const int* codes, const int* queries, int* best, std::int64_t q,
                              std::int64_t chunks, void* stream) {
  const dim3 grid(chunks, (q + kQueries - 1) / kQueries);
  search_chunk<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      codes, queries, best, static_cast<int>(q), static_cast<int>(chunks));
  return static_cast<int>(cudaGetLastError());
}
