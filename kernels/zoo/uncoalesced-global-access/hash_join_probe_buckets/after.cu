// kernel: hash_join_probe_buckets/after/cuda
// change: 4 lanes share a probe and read its bucket of 64 bytes together
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kSlots = 16;
constexpr int kGroup = 4;

__device__ __forceinline__ std::uint32_t find_bucket(int key, std::uint32_t buckets) {
  std::uint32_t mixed = static_cast<std::uint32_t>(key) * 0x9E3779B1u;
  mixed ^= mixed >> 15;
  return mixed & (buckets - 1);
}

__global__ void __launch_bounds__(kThreads)
    probe_buckets(const int* __restrict__ probe, const int* __restrict__ slot_keys,
                  const int* __restrict__ slot_rows, int* __restrict__ rows, int n,
                  std::uint32_t buckets) {
  const int i = (blockIdx.x * kThreads + threadIdx.x) / kGroup;
  const int part = threadIdx.x % kGroup;
  const bool is_real = i < n;
  const int key = is_real ? probe[i] : 0;
  const std::uint32_t first = find_bucket(key, buckets) * kSlots + part * 4;
  const int4 stored = *reinterpret_cast<const int4*>(slot_keys + first);
  int match = -1;
  if (stored.x == key) match = 0;
  if (stored.y == key) match = 1;
  if (stored.z == key) match = 2;
  if (stored.w == key) match = 3;
  const unsigned votes = __ballot_sync(0xffffffffu, match >= 0);
  const unsigned own = (votes >> (threadIdx.x % 32 / kGroup * kGroup)) & ((1u << kGroup) - 1);
  if (!is_real) return;
  if (match >= 0) rows[i] = slot_rows[first + match];
  if (own == 0 && part == 0) rows[i] = -1;
}

}  // namespace

extern "C" int probe_table(const int* probe, const int* slot_keys, const int* slot_rows, int* rows,
                           std::int64_t n, std::int64_t buckets, void* stream) {
  const int blocks = static_cast<int>((n * kGroup + kThreads - 1) / kThreads);
  probe_buckets<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      probe, slot_keys, slot_rows, rows, static_cast<int>(n), static_cast<std::uint32_t>(buckets));
  return static_cast<int>(cudaGetLastError());
}
