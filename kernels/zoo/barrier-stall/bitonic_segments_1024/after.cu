// kernel: bitonic_segments_1024/after/cuda
// change: the 40 steps with strides below 32 exchange keys by shuffle, without barriers
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kLength = 1024;
constexpr int kWarp = 32;

__global__ void __launch_bounds__(kLength)
    sort_segments(const float* __restrict__ in, float* __restrict__ out) {
  __shared__ float keys[kLength];
  const int lane = threadIdx.x;
  const std::int64_t place = static_cast<std::int64_t>(blockIdx.x) * kLength + lane;
  keys[lane] = in[place];
  __syncthreads();
  for (int size = 2; size <= kLength; size *= 2) {
    const bool ascending = (lane & size) == 0;
    for (int stride = size / 2; stride >= kWarp; stride /= 2) {
      const int partner = lane ^ stride;
      if (partner > lane) {
        const float own = keys[lane];
        const float other = keys[partner];
        if ((own > other) == ascending) {
          keys[lane] = other;
          keys[partner] = own;
        }
      }
      __syncthreads();
    }
    float key = keys[lane];
    for (int stride = min(size, kWarp) / 2; stride > 0; stride /= 2) {
      const float other = __shfl_xor_sync(0xffffffffu, key, stride);
      const bool keeps_smaller = ((lane & stride) == 0) == ascending;
      key = keeps_smaller ? fminf(key, other) : fmaxf(key, other);
    }
    keys[lane] = key;
    __syncthreads();
  }
  out[place] = keys[lane];
}

}  // namespace

extern "C" int sort_rows(const float* in, float* out, std::int64_t segments, void* stream) {
  sort_segments<<<static_cast<unsigned>(segments), kLength, 0, static_cast<cudaStream_t>(stream)>>>(
      in, out);
  return static_cast<int>(cudaGetLastError());
}
