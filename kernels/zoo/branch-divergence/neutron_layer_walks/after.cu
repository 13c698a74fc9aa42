// kernel: neutron_layer_walks/after/cuda
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kLayers = 256;
constexpr int kMaxBlocks = 132 * 8;

__device__ __forceinline__ std::uint32_t start_state(std::uint32_t neutron, std::uint32_t seed) {
  std::uint32_t state = (neutron + seed) * 0x9E3779B1u;
  state ^= state >> 16;
  state *= 0x85EBCA77u;
  state ^= state >> 13;
  return state | 1u;
}

__device__ __forceinline__ std::uint32_t advance(std::uint32_t state) {
  state ^= state << 13;
  state ^= state >> 17;
  state ^= state << 5;
  return state;
}

// A neutron starts in the middle layer and flies from collision to collision, until a layer
// absorbs it or it leaves the shield; its thread goes on with another one then.
__global__ void __launch_bounds__(kThreads)
    follow_neutrons(const std::uint8_t* __restrict__ absorption, const int* __restrict__ seed,
                    int2* __restrict__ fates, int n) {
  __shared__ std::uint8_t odds[kLayers];
  for (int i = threadIdx.x; i < kLayers; i += kThreads) odds[i] = absorption[i];
  __syncthreads();
  const int stride = gridDim.x * kThreads;
  int neutron = blockIdx.x * kThreads + threadIdx.x;
  if (neutron >= n) return;
  const int shift = seed[0];
  std::uint32_t state = start_state(neutron, shift);
  int layer = kLayers / 2, collisions = 0;
  while (true) {
    state = advance(state);
    layer += static_cast<int>((state >> 8) & 7) - static_cast<int>((state >> 11) & 7);
    const bool inside = layer >= 0 && layer < kLayers;
    collisions += inside;
    if (inside && (state >> 24) >= odds[layer]) continue;
    fates[neutron] = make_int2(layer, collisions);
    neutron += stride;
    if (neutron >= n) break;
    state = start_state(neutron, shift);
    layer = kLayers / 2;
    collisions = 0;
  }
}

}  // namespace

extern "C" int follow(const std::uint8_t* absorption, const int* seed, std::int64_t n, int* fates,
                      void* stream) {
  const int needed = static_cast<int>((n + kThreads - 1) / kThreads);
  const int blocks = needed < kMaxBlocks ? needed : kMaxBlocks;
  follow_neutrons<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      absorption, seed, reinterpret_cast<int2*>(fates), static_cast<int>(n));
  return static_cast<int>(cudaGetLastError());
}
