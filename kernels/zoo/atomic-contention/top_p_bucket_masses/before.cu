// kernel: top_p_bucket_masses/before/cuda
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 1024;
constexpr int kBuckets = 256;
constexpr float kUnit = 16384.0f;  // a weight of 1 in fixed point

__device__ float block_max(float value) {
  __shared__ float values[kThreads / 32];
  for (int step = 16; step > 0; step /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, step));
  }
  if (threadIdx.x % 32 == 0) values[threadIdx.x / 32] = value;
  __syncthreads();
  for (int warp = 0; warp < kThreads / 32; ++warp) value = fmaxf(value, values[warp]);
  return value;
}

// The upper byte of the logit's bits, ordered as the logits are.
__device__ int to_bucket(__nv_bfloat16 logit) {
  const unsigned bits = __bfloat16_as_ushort(logit);
  return (bits & 0x8000u ? ~bits & 0xffffu : bits | 0x8000u) >> 8;
}

// A block for each row: sums the weights of 256 buckets, and finds the bucket where they reach
// the share top_p of all, from the largest logits on.
__global__ void __launch_bounds__(kThreads)
    find_row_bucket(const __nv_bfloat16* __restrict__ logits, double top_p,
                    int* __restrict__ buckets, float* __restrict__ masses, int vocabulary) {
  __shared__ unsigned sums[kBuckets];
  const __nv_bfloat16* row = logits + static_cast<std::int64_t>(blockIdx.x) * vocabulary;
  for (int i = threadIdx.x; i < kBuckets; i += kThreads) sums[i] = 0;
  float largest = -INFINITY;
  for (int i = threadIdx.x; i < vocabulary; i += kThreads) {
    largest = fmaxf(largest, __bfloat162float(row[i]));
  }
  largest = block_max(largest);
  for (int i = threadIdx.x; i < vocabulary; i += kThreads) {
    const float weight = expf(__bfloat162float(row[i]) - largest);
    atomicAdd(&sums[to_bucket(row[i])], static_cast<unsigned>(weight * kUnit));
  }
  __syncthreads();
  if (threadIdx.x > 0) return;
  unsigned long long total = 0;
  for (int bucket = 0; bucket < kBuckets; ++bucket) total += sums[bucket];
  const double wanted = top_p * static_cast<double>(total);
  unsigned long long mass = 0;
  int bucket = kBuckets;
  while (bucket > 0 && static_cast<double>(mass) < wanted) mass += sums[--bucket];
  buckets[blockIdx.x] = bucket;
  masses[blockIdx.x] = static_cast<float>(mass) / kUnit;
}

}  // namespace

extern "C" int find_buckets(const __nv_bfloat16* logits, double top_p, int* buckets, float* masses,
                            std::int64_t rows, std::int64_t vocabulary, void* stream) {
  find_row_bucket<<<static_cast<unsigned>(rows), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      logits, top_p, buckets, masses, static_cast<int>(vocabulary));
  return static_cast<int>(cudaGetLastError());
}
