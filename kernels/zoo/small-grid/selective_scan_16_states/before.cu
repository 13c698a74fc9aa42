// kernel: selective_scan_16_states/before/cuda
// flaw: a thread for each channel makes only 24 blocks of four warps
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 128;
constexpr int kStates = 16;
constexpr int kLanes = 1;  // that share the states of one channel
constexpr int kOwn = kStates / kLanes;
constexpr int kChannels = kThreads / kLanes;
constexpr int kSteps = 16;
constexpr float kLog2e = 1.4426950408889634f;

__global__ void __launch_bounds__(kThreads)
    scan_channels(const __nv_bfloat16* __restrict__ u, const __nv_bfloat16* __restrict__ delta,
                  const float* __restrict__ rate, const __nv_bfloat16* __restrict__ b,
                  const __nv_bfloat16* __restrict__ c, const float* __restrict__ skip,
                  __nv_bfloat16* __restrict__ y, std::int64_t time, std::int64_t channels) {
  __shared__ float s_u[kSteps][kChannels];
  __shared__ float s_delta[kSteps][kChannels];
  __shared__ __align__(16) float s_b[kSteps][kStates];
  __shared__ __align__(16) float s_c[kSteps][kStates];

  const std::int64_t row0 = static_cast<std::int64_t>(blockIdx.y) * time;
  const std::int64_t channel0 = static_cast<std::int64_t>(blockIdx.x) * kChannels;
  const int local = threadIdx.x / kLanes;
  const int first = (threadIdx.x % kLanes) * kOwn;
  const std::int64_t channel = channel0 + local;
  const bool active = channel < channels;

  float decay[kOwn];
  float state[kOwn];
#pragma unroll
  for (int n = 0; n < kOwn; ++n) {
    decay[n] = active ? -kLog2e * rate[channel * kStates + first + n] : 0.0f;
    state[n] = 0.0f;
  }
  const float direct = active ? skip[channel] : 0.0f;

  for (std::int64_t t0 = 0; t0 < time; t0 += kSteps) {
    const int steps = static_cast<int>(time - t0 < kSteps ? time - t0 : kSteps);
    __syncthreads();
#pragma unroll
    for (int i = threadIdx.x; i < kSteps * kChannels; i += kThreads) {
      const int step = i / kChannels;
      const std::int64_t at = channel0 + i % kChannels;
      const bool inside = step < steps && at < channels;
      const std::int64_t source = (row0 + t0 + step) * channels + at;
      s_u[step][i % kChannels] = inside ? __bfloat162float(u[source]) : 0.0f;
      s_delta[step][i % kChannels] = inside ? __bfloat162float(delta[source]) : 0.0f;
    }
#pragma unroll
    for (int i = threadIdx.x; i < kSteps * kStates; i += kThreads) {
      const bool inside = i / kStates < steps;
      const std::int64_t source = (row0 + t0) * kStates + i;
      s_b[i / kStates][i % kStates] = inside ? __bfloat162float(b[source]) : 0.0f;
      s_c[i / kStates][i % kStates] = inside ? __bfloat162float(c[source]) : 0.0f;
    }
    __syncthreads();

    for (int step = 0; step < steps; ++step) {
      const float x = s_u[step][local];
      const float dt = s_delta[step][local];
      const float dx = dt * x;
      float sum = 0.0f;
#pragma unroll
      for (int n = 0; n < kOwn; ++n) {
        state[n] = exp2f(dt * decay[n]) * state[n] + dx * s_b[step][first + n];
        sum += state[n] * s_c[step][first + n];
      }
#pragma unroll
      for (int offset = kLanes / 2; offset > 0; offset /= 2) {
        sum += __shfl_xor_sync(0xffffffffu, sum, offset);
      }
      if (active && first == 0) {
        y[(row0 + t0 + step) * channels + channel] = __float2bfloat16(sum + direct * x);
      }
    }
  }
}

}  // namespace

extern "C" int selective_scan(const void* u, const void* delta, const float* rate, const void* b,
                              const void* c, const float* skip, void* y, std::int64_t batch,
                              std::int64_t time, std::int64_t channels, void* stream) {
  const dim3 grid(static_cast<unsigned>((channels + kChannels - 1) / kChannels),
                  static_cast<unsigned>(batch));
  scan_channels<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const __nv_bfloat16*>(u), static_cast<const __nv_bfloat16*>(delta), rate,
      static_cast<const __nv_bfloat16*>(b), static_cast<const __nv_bfloat16*>(c), skip,
      static_cast<__nv_bfloat16*>(y), time, channels);
  return static_cast<int>(cudaGetLastError());
}
