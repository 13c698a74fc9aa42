// kernel: average_option_random_words/after/cuda
// change: four random words are drawn once and serve four steps
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kRounds = 10;
constexpr unsigned kSeed = 2026;

// Four random words of a counter, by ten rounds of multiplications.
__device__ __forceinline__ uint4 scramble(unsigned path, unsigned block, unsigned option) {
  uint4 word = make_uint4(path, block, 0, 0);
  unsigned key0 = option, key1 = kSeed;
#pragma unroll
  for (int round = 0; round < kRounds; ++round) {
    const unsigned high0 = __umulhi(0xD2511F53u, word.x), low0 = 0xD2511F53u * word.x;
    const unsigned high1 = __umulhi(0xCD9E8D57u, word.z), low1 = 0xCD9E8D57u * word.z;
    word = make_uint4(high1 ^ word.y ^ key0, low1, high0 ^ word.w ^ key1, low0);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return word;
}

__device__ __forceinline__ float to_uniform(unsigned word) {
  return static_cast<float>(word >> 8) * 0x1p-24f + 0x1p-25f;
}

__device__ __forceinline__ float2 to_normals(unsigned first, unsigned second) {
  const float radius = sqrtf(-2.0f * logf(to_uniform(first)));
  float sine, cosine;
  sincospif(2.0f * to_uniform(second), &sine, &cosine);
  return make_float2(radius * cosine, radius * sine);
}

__global__ void __launch_bounds__(kThreads)
    simulate_paths(const float* __restrict__ spots, const float* __restrict__ volatilities,
                   float* __restrict__ payoffs, int paths, int steps) {
  const int path = blockIdx.x * kThreads + threadIdx.x, option = blockIdx.y;
  if (path >= paths) return;
  const float spot = spots[option], volatility = volatilities[option];
  const float interval = 1.0f / steps;
  const float drift = -0.5f * volatility * volatility * interval;
  const float spread = volatility * sqrtf(interval);
  float growth = 0.0f, sum = 0.0f;
  for (int first = 0; first < steps; first += 4) {
    const uint4 words = scramble(path, first / 4, option);
    const float2 early = to_normals(words.x, words.y), late = to_normals(words.z, words.w);
    const float normals[4] = {early.x, early.y, late.x, late.y};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (first + i >= steps) break;
      growth += drift + spread * normals[i];
      sum += expf(growth);
    }
  }
  payoffs[static_cast<std::int64_t>(option) * paths + path] = fmaxf(spot * (sum * interval - 1), 0);
}

}  // namespace

extern "C" int average_payoffs(const float* spots, const float* volatilities, std::int64_t paths,
                               std::int64_t steps, float* payoffs, std::int64_t options,
                               void* stream) {
  const dim3 blocks(static_cast<unsigned>((paths + kThreads - 1) / kThreads),
                    static_cast<unsigned>(options));
  simulate_paths<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      spots, volatilities, payoffs, static_cast<int>(paths), static_cast<int>(steps));
  return static_cast<int>(cudaGetLastError());
}
