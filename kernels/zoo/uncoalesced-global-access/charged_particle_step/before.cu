// kernel: charged_particle_step/before/cuda
// flaw: neighbouring threads load and store the same field 28 bytes apart
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
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
    step_particles(const Particle* __restrict__ in, Particle* __restrict__ out, int n) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i < n) out[i] = advance(in[i]);
}

}  // namespace

extern "C" int step_charged(const float* in, float* out, std::int64_t n, void* stream) {
  const auto blocks = static_cast<unsigned>((n + kThreads - 1) / kThreads);
  step_particles<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      reinterpret_cast<const Particle*>(in), reinterpret_cast<Particle*>(out),
      static_cast<int>(n));
  return static_cast<int>(cudaGetLastError());
}
