// kernel: bitonic_segments_1024/before/cuda
// flaw: each of the 55 steps goes through shared memory and waits for all 32 warps
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kLength = 1024;

__global__ void __launch_bounds__(kLength)
    sort_segments(const float* __restrict__ in, float* __restrict__ out) {
  __shared__ float keys[kLength];
  const int lane = threadIdx.x;
  const std::int64_t place = static_cast<std::int64_t>(blockIdx.x) * kLength + lane;
  keys[lane] = in[place];
  __syncthreads();
  for (int size = 2; size <= kLength; size *= 2) {
    const bool ascending = (lane & size) == 0;
    for (int stride = size / 2; stride > 0; stride /= 2) {
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
  }
  out[place] = keys[lane];
}

}  // namespace

extern "C" int sort_rows(const float* in, float* out, std::int64_t segments, void* stream) {
  sort_segments<<<static_cast<unsigned>(segments), kLength, 0, static_cast<cudaStream_t>(stream)>>>(
      in, out);
  return static_cast<int>(cudaGetLastError());
}
