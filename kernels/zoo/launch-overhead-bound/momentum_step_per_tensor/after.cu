// kernel: momentum_step_per_tensor/after/cuda
// One launch steps all tensors.
#include <cstdint>

#include <cuda_runtime.h>

namespace {

constexpr int kThreads = 256;
constexpr float kRate = 0.125f;
constexpr float kDecay = 0.75f;

__global__ void step_all(float* parameter, float* velocity, const float* gradient, int64_t count) {
  int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  float moved = kDecay * velocity[i] + gradient[i];
  velocity[i] = moved;
  parameter[i] -= kRate * moved;
}

}  // namespace

extern "C" int momentum_step(const float* /*parameter*/, const float* /*velocity*/,
                             const float* gradient, float* next_parameter, float* next_velocity,
                             int64_t t, int64_t n, void* stream) {
  int64_t count = t * n;
  auto blocks = static_cast<unsigned>((count + kThreads - 1) / kThreads);
  step_all<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      next_parameter, next_velocity, gradient, count);
  return static_cast<int>(cudaGetLastError());
}
