// kernel: ntt_1024_residues/staged-twiddles/cuda
// change: the block reads the twiddles once, into shared memory
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kLength = 1024;
constexpr int kPrimes = 4;

__constant__ std::uint32_t primes[kPrimes] = {998244353u, 1004535809u, 469762049u, 754974721u};

__device__ __forceinline__ std::uint32_t multiply(std::uint32_t a, std::uint32_t b,
                                                  std::uint32_t prime) {
  return static_cast<std::uint32_t>(static_cast<std::uint64_t>(a) * b % prime);
}

__global__ void __launch_bounds__(kThreads)
    transform_polynomial(const std::uint32_t* __restrict__ values,
                         const std::uint32_t* __restrict__ twiddles,
                         std::uint32_t* __restrict__ transformed) {
  __shared__ std::uint32_t x[kLength], factors[kLength];
  const std::uint32_t prime = primes[blockIdx.x % kPrimes];
  const std::int64_t base = static_cast<std::int64_t>(blockIdx.x) * kLength;
  for (int i = threadIdx.x; i < kLength; i += kThreads) {
    x[i] = values[base + i];
    factors[i] = twiddles[i];
  }
  __syncthreads();
  for (int half = kLength / 2; half > 0; half /= 2) {
    for (int k = threadIdx.x; k < kLength / 2; k += kThreads) {
      const int j = k & (half - 1);
      const int low = 2 * (k - j) + j, high = low + half;
      const std::uint32_t left = x[low], right = x[high];
      const std::uint32_t sum = left + right;
      x[low] = sum >= prime ? sum - prime : sum;
      const std::uint32_t difference = left >= right ? left - right : left + prime - right;
      x[high] = multiply(difference, factors[half + j], prime);
    }
    __syncthreads();
  }
  for (int i = threadIdx.x; i < kLength; i += kThreads) transformed[base + i] = x[i];
}

}  // namespace

extern "C" int transform(const std::uint32_t* values, const std::uint32_t* twiddles,
                         std::uint32_t* transformed, std::int64_t n, void* stream) {
  transform_polynomial<<<static_cast<unsigned>(n), kThreads, 0,
                         static_cast<cudaStream_t>(stream)>>>(values, twiddles, transformed);
  return static_cast<int>(cudaGetLastError());
}
