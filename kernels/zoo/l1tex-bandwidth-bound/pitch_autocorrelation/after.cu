// kernel: pitch_autocorrelation/after/cuda
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kSamples = 1024;  // of a frame
constexpr int kWindow = 512;    // samples that are multiplied with those a lag later
constexpr int kLags = 512;
constexpr int kOwn = 4;  // lags of a thread, one after the other
constexpr int kThreads = kLags / kOwn;

// A block a frame of speech, a thread four neighbouring lags.
__global__ void __launch_bounds__(kThreads)
    correlate(const float* __restrict__ frames, float* __restrict__ correlations) {
  __shared__ __align__(16) float samples[kSamples];
  __shared__ float energy;
  const std::int64_t frame = blockIdx.x;
  for (int i = threadIdx.x; i < kSamples; i += kThreads) {
    samples[i] = frames[frame * kSamples + i];
  }
  __syncthreads();
  const int lag = threadIdx.x * kOwn;
  float sums[kOwn] = {};
  float4 near = *reinterpret_cast<const float4*>(samples + lag);
#pragma unroll 4
  for (int i = 0; i < kWindow; i += kOwn) {
    const float4 own = *reinterpret_cast<const float4*>(samples + i);
    const float4 far = *reinterpret_cast<const float4*>(samples + i + lag + kOwn);
    sums[0] += own.x * near.x + own.y * near.y + own.z * near.z + own.w * near.w;
    sums[1] += own.x * near.y + own.y * near.z + own.z * near.w + own.w * far.x;
    sums[2] += own.x * near.z + own.y * near.w + own.z * far.x + own.w * far.y;
    sums[3] += own.x * near.w + own.y * far.x + own.z * far.y + own.w * far.z;
    near = far;
  }
  if (lag == 0) energy = sums[0];
  __syncthreads();
  const float scale = 1.0f / (energy + 1.0e-6f);
  *reinterpret_cast<float4*>(correlations + frame * kLags + lag) =
      make_float4(sums[0] * scale, sums[1] * scale, sums[2] * scale, sums[3] * scale);
}

}  // namespace

extern "C" int correlate_frames(const float* frames, float* correlations, std::int64_t count,
                                void* stream) {
  correlate<<<static_cast<unsigned>(count), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      frames, correlations);
  return static_cast<int>(cudaGetLastError());
}
