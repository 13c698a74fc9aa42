// kernel: call_price/naive/cuda
// shapes: moneyness (n,) float32 contiguous -> price (n,) float32; n >= 0
// launch: grid ceil(n / 256), block 256; one thread per option
// work: algorithm 8 B and about 40 FLOP per option; here over 100 double-precision operations
// weakness: literals without a suffix make everything, exp and erf included, double precision
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

namespace {

constexpr int kThreads = 256;

__device__ double normal(double x) { return 0.5 * (1.0 + erf(x * 0.7071067811865476)); }

__global__ void call_price_in_double(const float* __restrict__ moneyness, float* __restrict__ price,
                                     std::int64_t n) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  // One year, a rate of 0.02 and a volatility of 0.3.
  const double near = (moneyness[i] + 0.02) / 0.3 + 0.15;
  const double far = near - 0.3;
  const double discount = 0.98019867330675530;
  price[i] = static_cast<float>(exp(1.0 * moneyness[i]) * normal(near) - discount * normal(far));
}

}  // namespace

extern "C" int call_price(const float* moneyness, float* price, std::int64_t n, void* stream) {
  if (n == 0) return 0;
  const auto blocks = static_cast<unsigned>((n + kThreads - 1) / kThreads);
  call_price_in_double<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(moneyness, price,
                                                                                   n);
  return static_cast<int>(cudaGetLastError());
}
