// kernel: option_price_literals/after/cuda
// change: literals have the suffix f
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    price_options(const float* __restrict__ moneyness, const float* __restrict__ years,
                  const float* __restrict__ volatility, float* __restrict__ price, int n) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= n) return;
  const auto spot = moneyness[i] + 0.5f;
  const auto time = years[i] + 0.25f;
  const auto sigma = 0.5f * volatility[i] + 0.1f;
  const auto spread = sigma * sqrt(time);
  const auto d1 = (log(spot) + (0.02f + 0.5f * sigma * sigma) * time) / spread;
  const auto d2 = d1 - spread;
  price[i] =
      0.5f * (spot * erfc(-0.70710678f * d1) - exp(-0.02f * time) * erfc(-0.70710678f * d2));
}

}  // namespace

extern "C" int price_calls(const float* moneyness, const float* years, const float* volatility,
                           float* price, std::int64_t n, void* stream) {
  const int blocks = static_cast<int>((n + kThreads - 1) / kThreads);
  price_options<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      moneyness, years, volatility, price, static_cast<int>(n));
  return static_cast<int>(cudaGetLastError());
}
