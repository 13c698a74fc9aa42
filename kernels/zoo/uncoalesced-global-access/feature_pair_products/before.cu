// kernel: feature_pair_products/before/cuda
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kFeatures = 27;
constexpr int kSize = 64;
constexpr int kPairs = kFeatures * (kFeatures - 1) / 2;
constexpr int kThreads = 128;

// Pairs (1, 0), (2, 0), (2, 1), (3, 0) and so on.
__device__ __forceinline__ int2 find_pair(int pair) {
  int row = static_cast<int>((1.0f + sqrtf(1.0f + 8.0f * pair)) * 0.5f);
  if (row * (row - 1) / 2 > pair) --row;
  return make_int2(row, pair - row * (row - 1) / 2);
}

// A block takes a sample.
__global__ void __launch_bounds__(kThreads)
    multiply_pairs(const float* __restrict__ features, float* __restrict__ products) {
  const float* sample = features + static_cast<std::int64_t>(blockIdx.x) * kFeatures * kSize;
  float* to = products + static_cast<std::int64_t>(blockIdx.x) * kPairs;
  for (int pair = threadIdx.x; pair < kPairs; pair += kThreads) {
    const int2 which = find_pair(pair);
    const float* left = sample + which.x * kSize;
    const float* right = sample + which.y * kSize;
    float sum = 0.0f;
    for (int i = 0; i < kSize; ++i) sum += left[i] * right[i];
    to[pair] = sum;
  }
}

}  // namespace

extern "C" int interact(const float* features, float* products, std::int64_t samples,
                        void* stream) {
  multiply_pairs<<<static_cast<unsigned>(samples), kThreads, 0,
                   static_cast<cudaStream_t>(stream)>>>(features, products);
  return static_cast<int>(cudaGetLastError());
}
