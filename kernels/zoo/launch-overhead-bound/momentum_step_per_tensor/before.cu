// kernel: momentum_step_per_tensor/before/cuda
// The step of each tensor is a launch of its own.
#include <cstdint>

#include <cuda_runtime.h>

namespace {

constexpr int kThreads = 256;
constexpr float kRate = 0.125f;
constexpr float kDecay = 0.75f;

__global__ void step_tensor(float* parameter, float* velocity, const float* gradient, int64_t n) {
  int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float moved = kDecay * velocity[i] + gradient[i];
  velocity[i] = moved;
  parameter[i] -= kRate * moved;
}

}  // namespace

extern "C" int momentum_step(const float* /*parameter*/, const float* /*velocity*/,
                             const float* gradient, float* next_parameter, float* next_velocity,
                             int64_t t, int64_t n, void* stream) {
  auto blocks = static_cast<unsigned>((n + kThreads - 1) / kThreads);
  for (int64_t tensor = 0; tensor < t; ++tensor) {
    int64_t at = tensor * n;
    step_tensor<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
        next_parameter + at, next_velocity + at, gradient + at, n);
  }
  return static_cast<int>(cudaGetLastError());
}
