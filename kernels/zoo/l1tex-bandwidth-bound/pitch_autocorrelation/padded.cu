// kernel: pitch_autocorrelation/padded/cuda
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kSamples = 1024;  // of a frame
constexpr int kWindow = 512;    // samples that are multiplied with those a lag later
constexpr int kLags = 512;
constexpr int kThreads = kLags;

// One place in 33 stays empty.
__device__ __forceinline__ int place(int i) { return i + i / 32; }

// A block a frame of speech, a thread a lag.
__global__ void __launch_bounds__(kThreads)
    correlate(const float* __restrict__ frames, float* __restrict__ correlations) {
  __shared__ __align__(16) float samples[kSamples + kSamples / 32];
  __shared__ float energy;
  const std::int64_t frame = blockIdx.x;
  for (int i = threadIdx.x; i < kSamples; i += kThreads) {
    samples[place(i)] = frames[frame * kSamples + i];
  }
  __syncthreads();
  const int lag = threadIdx.x;
  float sum = 0.0f;
#pragma unroll 8
  for (int i = 0; i < kWindow; ++i) sum += samples[place(i)] * samples[place(i + lag)];
  if (lag == 0) energy = sum;
  __syncthreads();
  correlations[frame * kLags + lag] = sum / (energy + 1.0e-6f);
}

}  // namespace

extern "C" int correlate_frames(const float* frames, float* correlations, std::int64_t count,
                                void* stream) {
  correlate<<<static_cast<unsigned>(count), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      frames, correlations);
  return static_cast<int>(cudaGetLastError());
}
