// kernel: bond_yields_newton/before/cuda
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kSteps = 6;

struct Quote {
  float value;
  float slope;
};

// Value of a bond of 1 that pays `coupon` each period, and its derivative by the yield.
__device__ __forceinline__ Quote quote(float coupon, float yield, int periods) {
  const float growth = 1.0f + yield;
  float discount = 1.0f, value = 0.0f, weighted = 0.0f;
  for (int period = 1; period <= periods; ++period) {
    discount /= growth;
    value += coupon * discount;
    weighted += period * coupon * discount;
  }
  value += discount;
  weighted += periods * discount;
  return {value, -weighted / growth};
}

__global__ void __launch_bounds__(kThreads)
    find_yields(const float* __restrict__ prices, const float* __restrict__ coupons,
                float* __restrict__ yields, float* __restrict__ durations, int n, int periods) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= n) return;
  const float price = prices[i], coupon = coupons[i];
  float yield = coupon;
  Quote now = quote(coupon, yield, periods);
  for (int step = 0; step < kSteps; ++step) {
    yield -= (now.value - price) / now.slope;
    now = quote(coupon, yield, periods);
  }
  yields[i] = yield;
  durations[i] = -now.slope / now.value;
}

}  // namespace

extern "C" int solve_yields(const float* prices, const float* coupons, std::int64_t periods,
                            float* yields, float* durations, std::int64_t n, void* stream) {
  const int blocks = static_cast<int>((n + kThreads - 1) / kThreads);
  find_yields<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      prices, coupons, yields, durations, static_cast<int>(n), static_cast<int>(periods));
  return static_cast<int>(cudaGetLastError());
}
