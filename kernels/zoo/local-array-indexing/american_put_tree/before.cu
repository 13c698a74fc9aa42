// kernel: american_put_tree/before/cuda
// flaw: the values of a level are an array of each thread, indexed at run time, in local memory
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 64;
constexpr int kMaxSteps = 127;
constexpr float kRate = 0.03f;
constexpr float kVolatility = 0.3f;
constexpr float kShortestExpiry = 0.25f;

__global__ void __launch_bounds__(kThreads)
    price_puts(const float* __restrict__ spots, const float* __restrict__ strikes,
               const float* __restrict__ expiries, float* __restrict__ prices, int steps,
               int options) {
  const int option = blockIdx.x * kThreads + threadIdx.x;
  if (option >= options) return;
  const float spot = spots[option];
  const float strike = strikes[option];
  const float dt = (kShortestExpiry + expiries[option]) / steps;
  const float up = expf(kVolatility * sqrtf(dt));
  const float down = 1.0f / up;
  const float discount = expf(-kRate * dt);
  const float chance = (1.0f / discount - down) / (up - down);
  const float weight_up = discount * chance;
  const float weight_down = discount * (1.0f - chance);
  const float ratio = up * up;

  float values[kMaxSteps + 1];
  float lowest = spot * expf(-kVolatility * sqrtf(dt) * steps);
  float price = lowest;
  for (int node = 0; node <= steps; ++node) {
    values[node] = fmaxf(strike - price, 0.0f);
    price *= ratio;
  }
  for (int level = steps - 1; level >= 0; --level) {
    lowest *= up;
    price = lowest;
    float below = values[0];
    for (int node = 0; node <= level; ++node) {
      const float above = values[node + 1];
      const float held = weight_up * above + weight_down * below;
      values[node] = fmaxf(held, strike - price);
      below = above;
      price *= ratio;
    }
  }
  prices[option] = values[0];
}

}  // namespace

extern "C" int american_puts(const float* spots, const float* strikes, const float* expiries,
                             std::int64_t steps, float* prices, std::int64_t options,
                             void* stream) {
  const auto blocks = static_cast<unsigned>((options + kThreads - 1) / kThreads);
  price_puts<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      spots, strikes, expiries, prices, static_cast<int>(steps), static_cast<int>(options));
  return static_cast<int>(cudaGetLastError());
}
