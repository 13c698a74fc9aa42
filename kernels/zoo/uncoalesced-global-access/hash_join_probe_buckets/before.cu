// kernel: hash_join_probe_buckets/before/cuda
// computes: the build row of each probe key, from a bucketed hash table
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kSlots = 16;
constexpr int kEmpty = -1;

__device__ __forceinline__ std::uint32_t find_bucket(int key, std::uint32_t buckets) {
  std::uint32_t mixed = static_cast<std::uint32_t>(key) * 0x9E3779B1u;
  mixed ^= mixed >> 15;
  return mixed & (buckets - 1);
}

__global__ void __launch_bounds__(kThreads)
    probe_buckets(const int* __restrict__ probe, const int* __restrict__ slot_keys,
                  const int* __restrict__ slot_rows, int* __restrict__ rows, int n,
                  std::uint32_t buckets) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= n) return;
  const int key = probe[i];
  const std::uint32_t first = find_bucket(key, buckets) * kSlots;
  int row = -1;
  for (int slot = 0; slot < kSlots; ++slot) {
    const int stored = slot_keys[first + slot];
    if (stored == kEmpty) break;
    if (stored == key) {
      row = slot_rows[first + slot];
      break;
    }
  }
  rows[i] = row;
}

}  // namespace

extern "C" int probe_table(const int* probe, const int* slot_keys, const int* slot_rows, int* rows,
                           std::int64_t n, std::int64_t buckets, void* stream) {
  const int blocks = static_cast<int>((n + kThreads - 1) / kThreads);
  probe_buckets<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      probe, slot_keys, slot_rows, rows, static_cast<int>(n), static_cast<std::uint32_t>(buckets));
  return static_cast<int>(cudaGetLastError());
}
