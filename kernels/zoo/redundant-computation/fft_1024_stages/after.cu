// kernel: fft_1024_stages/after/cuda
// change: the block computes the 1023 roots of all stages once, into shared memory
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kPoints = 1024;
constexpr int kThreads = 256;
constexpr float kPi = 3.14159265358979f;

__device__ __forceinline__ float2 unit_root(int k, int span) {
  const float angle = -kPi * static_cast<float>(k) / static_cast<float>(span);
  float2 root;
  sincosf(angle, &root.y, &root.x);
  return root;
}

__global__ void __launch_bounds__(kThreads)
    transform(const float2* __restrict__ in, float2* __restrict__ out) {
  __shared__ float2 buffers[2][kPoints];
  __shared__ float2 roots[kPoints];  // root k of a span at span + k
  for (int i = threadIdx.x + 1; i < kPoints; i += kThreads) {
    const int span = 1 << (31 - __clz(i));
    roots[i] = unit_root(i - span, span);
  }
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kPoints;
  for (int i = threadIdx.x; i < kPoints; i += kThreads) buffers[0][i] = in[first + i];
  __syncthreads();
  int source = 0;
  for (int span = 1; span < kPoints; span *= 2) {
    for (int i = threadIdx.x; i < kPoints / 2; i += kThreads) {
      const int k = i & (span - 1);
      const float2 root = roots[span + k];
      const float2 a = buffers[source][i];
      const float2 b = buffers[source][i + kPoints / 2];
      const float2 turned = {b.x * root.x - b.y * root.y, b.x * root.y + b.y * root.x};
      const int target = 2 * (i - k) + k;
      buffers[1 - source][target] = {a.x + turned.x, a.y + turned.y};
      buffers[1 - source][target + span] = {a.x - turned.x, a.y - turned.y};
    }
    __syncthreads();
    source = 1 - source;
  }
  for (int i = threadIdx.x; i < kPoints; i += kThreads) out[first + i] = buffers[source][i];
}

}  // namespace

extern "C" int fft_rows(const float2* in, float2* out, std::int64_t batch, void* stream) {
  transform<<<static_cast<unsigned>(batch), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(in,
                                                                                             out);
  return static_cast<int>(cudaGetLastError());
}
