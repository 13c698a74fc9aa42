// kernel: charged_particle_step/after/cuda
// change: the block moves its 256 particles through shared memory in linear order
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kFields = 7;
constexpr float kStep = 0.01f;
constexpr float kFieldX = 0.3f;
constexpr float kFieldY = -0.2f;
constexpr float kFieldZ = 0.1f;
constexpr float kGyration = 0.5f;
constexpr float kDrag = 0.05f;

struct Particle {
  float x, y, z, vx, vy, vz, charge;
};

__device__ Particle advance(const Particle& p) {
  const float ax = p.charge * (kFieldX + kGyration * p.vy) - kDrag * p.vx;
  const float ay = p.charge * (kFieldY - kGyration * p.vx) - kDrag * p.vy;
  const float az = p.charge * kFieldZ - kDrag * p.vz;
  Particle next = p;
  next.vx += kStep * ax;
  next.vy += kStep * ay;
  next.vz += kStep * az;
  next.x += kStep * next.vx;
  next.y += kStep * next.vy;
  next.z += kStep * next.vz;
  return next;
}

__global__ void __launch_bounds__(kThreads)
    step_particles(const float* __restrict__ in, float* __restrict__ out, int n) {
  __shared__ Particle particles[kThreads];
  float* words = &particles[0].x;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kThreads;
  const int count = static_cast<int>(n - first < kThreads ? n - first : kThreads) * kFields;
#pragma unroll
  for (int k = 0; k < kFields; ++k) {
    const int j = k * kThreads + threadIdx.x;
    if (j < count) words[j] = in[first * kFields + j];
  }
  __syncthreads();
  particles[threadIdx.x] = advance(particles[threadIdx.x]);
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kFields; ++k) {
    const int j = k * kThreads + threadIdx.x;
    if (j < count) out[first * kFields + j] = words[j];
  }
}

}  // namespace

extern "C" int step_charged(const float* in, float* out, std::int64_t n, void* stream) {
  const auto blocks = static_cast<unsigned>((n + kThreads - 1) / kThreads);
  step_particles<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      in, out, static_cast<int>(n));
  return static_cast<int>(cudaGetLastError());
}
