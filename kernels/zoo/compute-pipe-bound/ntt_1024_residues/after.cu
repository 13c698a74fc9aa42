// kernel: ntt_1024_residues/after/cuda
// change: Montgomery products instead of the remainder of a 64-bit division
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kLength = 1024;
constexpr int kPrimes = 4;

__constant__ std::uint32_t primes[kPrimes] = {998244353u, 1004535809u, 469762049u, 754974721u};

// -1 / prime and 2^64, modulo 2^32 and prime.
__constant__ std::uint32_t inverses[kPrimes] = {998244351u, 1004535807u, 469762047u, 754974719u};
__constant__ std::uint32_t squares[kPrimes] = {932051910u, 542374313u, 460175152u, 749009521u};

// a * b / 2^32 modulo prime, for a * b below 2^32 * prime.
__device__ __forceinline__ std::uint32_t multiply(std::uint32_t a, std::uint32_t b,
                                                  std::uint32_t prime, std::uint32_t inverse) {
  const std::uint64_t product = static_cast<std::uint64_t>(a) * b;
  const std::uint32_t factor = static_cast<std::uint32_t>(product) * inverse;
  const std::uint64_t sum = product + static_cast<std::uint64_t>(factor) * prime;
  const std::uint32_t result = static_cast<std::uint32_t>(sum >> 32);
  return result >= prime ? result - prime : result;
}

__global__ void __launch_bounds__(kThreads)
    transform_polynomial(const std::uint32_t* __restrict__ values,
                         const std::uint32_t* __restrict__ twiddles,
                         std::uint32_t* __restrict__ transformed) {
  __shared__ std::uint32_t x[kLength];
  const std::uint32_t prime = primes[blockIdx.x % kPrimes];
  const std::uint32_t inverse = inverses[blockIdx.x % kPrimes];
  const std::uint32_t square = squares[blockIdx.x % kPrimes];
  const std::int64_t base = static_cast<std::int64_t>(blockIdx.x) * kLength;
  for (int i = threadIdx.x; i < kLength; i += kThreads) x[i] = values[base + i];
  __syncthreads();
  for (int half = kLength / 2; half > 0; half /= 2) {
    for (int k = threadIdx.x; k < kLength / 2; k += kThreads) {
      const int j = k & (half - 1);
      const int low = 2 * (k - j) + j, high = low + half;
      const std::uint32_t left = x[low], right = x[high];
      const std::uint32_t sum = left + right;
      x[low] = sum >= prime ? sum - prime : sum;
      const std::uint32_t difference = left >= right ? left - right : left + prime - right;
      const std::uint32_t scaled = multiply(twiddles[half + j], square, prime, inverse);
      x[high] = multiply(difference, scaled, prime, inverse);
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
