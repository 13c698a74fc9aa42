// kernel: spmv_hub_rows/before/cuda
// flaw: one warp for each row, also for the rows that are 2048 times longer
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kRowsPerGroup = 1024;
constexpr int kHub = 131072;  // entries of the first row of a group
constexpr int kShort = 64;    // entries of the other rows
constexpr int kGroupEntries = kHub + (kRowsPerGroup - 1) * kShort;

__global__ void __launch_bounds__(kThreads)
    multiply_rows(const float* __restrict__ values, const int* __restrict__ columns,
                  const float* __restrict__ x, float* __restrict__ y, int groups) {
  const int warp = (blockIdx.x * kThreads + threadIdx.x) / 32;
  const int lane = threadIdx.x % 32;
  const int group = warp / kRowsPerGroup, member = warp % kRowsPerGroup;
  if (group >= groups) return;
  const std::int64_t base = static_cast<std::int64_t>(group) * kGroupEntries;
  const int first = member == 0 ? 0 : kHub + (member - 1) * kShort;
  const int last = first + (member == 0 ? kHub : kShort);
  float sum = 0.f;
  for (int e = first + lane; e < last; e += 32) {
    sum = fmaf(values[base + e], x[columns[base + e]], sum);
  }
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (lane == 0) y[group * kRowsPerGroup + member] += sum;
}

}  // namespace

extern "C" int spmv(const float* values, const int* columns, const float* x, const float* start,
                    float* y, std::int64_t groups, std::int64_t rows, std::int64_t entries,
                    void* stream) {
  (void)start, (void)entries;
  const int blocks = static_cast<int>((rows * 32 + kThreads - 1) / kThreads);
  multiply_rows<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      values, columns, x, y, static_cast<int>(groups));
  return static_cast<int>(cudaGetLastError());
}
