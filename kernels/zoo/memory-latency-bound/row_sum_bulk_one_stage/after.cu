// kernel: row_sum_bulk_one_stage/after/cuda
// change: four rows are on their way at a time
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 132;
constexpr int kMaxColumns = 2048;
constexpr int kStages = 4;

__device__ __forceinline__ void init_barrier(unsigned barrier, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void arrive_and_expect(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

// Waits until the phase of this parity has ended.
__device__ __forceinline__ void wait_for_phase(unsigned barrier, unsigned parity) {
  unsigned done = 0;
  while (done == 0) {
    asm volatile(
        "{\n.reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
  }
}

// Starts a copy of bytes, a multiple of 16; they count towards the barrier's phase.
__device__ __forceinline__ void copy_bulk(unsigned target, const void* source, unsigned bytes,
                                          unsigned barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(target),
      "l"(source), "r"(bytes), "r"(barrier)
      : "memory");
}

__global__ void __launch_bounds__(kThreads)
    sum_rows(const int* __restrict__ values, int* __restrict__ sums, std::int64_t rows,
             int columns) {
  __shared__ __align__(128) int ring[kStages][kMaxColumns];
  __shared__ __align__(8) std::uint64_t barriers[kStages];
  __shared__ int parts[2][kThreads / 32];
  const unsigned full = static_cast<unsigned>(__cvta_generic_to_shared(barriers));
  auto load_row = [&](std::int64_t row, int s) {
    arrive_and_expect(full + 8 * s, 4 * columns);
    copy_bulk(static_cast<unsigned>(__cvta_generic_to_shared(ring[s])), values + row * columns,
              4 * columns, full + 8 * s);
  };
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) init_barrier(full + 8 * s, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    for (int s = 0; s < kStages; ++s) {
      const std::int64_t row = blockIdx.x + static_cast<std::int64_t>(s) * gridDim.x;
      if (row < rows) load_row(row, s);
    }
  }
  __syncthreads();
  int i = 0;
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x, ++i) {
    const int s = i % kStages;
    wait_for_phase(full + 8 * s, i / kStages % 2);
    int sum = 0;
    for (int at = 4 * threadIdx.x; at < columns; at += 4 * kThreads) {
      const int4 four = *reinterpret_cast<const int4*>(&ring[s][at]);
      sum += four.x + four.y + four.z + four.w;
    }
    sum = __reduce_add_sync(0xFFFFFFFF, sum);
    if (threadIdx.x % 32 == 0) parts[i % 2][threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
      const std::int64_t next = row + static_cast<std::int64_t>(kStages) * gridDim.x;
      if (next < rows) load_row(next, s);
      int total = 0;
      for (int w = 0; w < kThreads / 32; ++w) total += parts[i % 2][w];
      sums[row] = total;
    }
  }
}

}  // namespace

extern "C" int sum_matrix_rows(const int* values, int* sums, std::int64_t rows,
                               std::int64_t columns, void* stream) {
  sum_rows<<<kBlocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(values, sums, rows,
                                                                        static_cast<int>(columns));
  return static_cast<int>(cudaGetLastError());
}
