// kernel: partition_aggregates/before/cuda
#include <cuda_runtime.h>

#include <climits>
#include <cstdint>

namespace {

constexpr int kThreads = 128;
constexpr int kGroups = 4096;
constexpr int kResident = 3;  // blocks that an SM's shared memory holds

// A block a partition of the table: count, sum, least and largest amount of each group in it.
__global__ void __launch_bounds__(kThreads, kResident)
    aggregate_partitions(const std::int16_t* __restrict__ groups, const int* __restrict__ amounts,
                         int* __restrict__ counts, int* __restrict__ sums,
                         int* __restrict__ lows, int* __restrict__ highs, int rows) {
  extern __shared__ int table[];
  int* count = table;
  int* sum = table + kGroups;
  int* low = table + 2 * kGroups;
  int* high = table + 3 * kGroups;
  for (int group = threadIdx.x; group < kGroups; group += kThreads) {
    count[group] = 0;
    sum[group] = 0;
    low[group] = INT_MAX;
    high[group] = INT_MIN;
  }
  __syncthreads();
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * rows;
  for (int row = threadIdx.x; row < rows; row += kThreads) {
    const int group = groups[first + row];
    const int amount = amounts[first + row];
    atomicAdd(&count[group], 1);
    atomicAdd(&sum[group], amount);
    atomicMin(&low[group], amount);
    atomicMax(&high[group], amount);
  }
  __syncthreads();
  const std::int64_t out = static_cast<std::int64_t>(blockIdx.x) * kGroups;
  for (int group = threadIdx.x; group < kGroups; group += kThreads) {
    counts[out + group] = count[group];
    sums[out + group] = sum[group];
    lows[out + group] = low[group];
    highs[out + group] = high[group];
  }
}

}  // namespace

extern "C" int aggregate(const std::int16_t* groups, const int* amounts, int* counts, int* sums,
                         int* lows, int* highs, std::int64_t partitions, std::int64_t rows,
                         void* stream) {
  constexpr int kBytes = 4 * kGroups * sizeof(int);
  const auto error = cudaFuncSetAttribute(aggregate_partitions,
                                          cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  if (error) return static_cast<int>(error);
  aggregate_partitions<<<static_cast<unsigned>(partitions), kThreads, kBytes,
                         static_cast<cudaStream_t>(stream)>>>(
      groups, amounts, counts, sums, lows, highs, static_cast<int>(rows));
  return static_cast<int>(cudaGetLastError());
}
