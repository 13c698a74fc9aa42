// kernel: cell_energy_ring/after/cuda
// change: records of 9 words instead of 8 in shared memory
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kBodies = 256;
constexpr int kFields = 8;
constexpr float kSoftening = 0.25f;

struct Body {
  float x, vx;
  float y, vy;
  float z, vz;
  float charge, mass;
  float unused;
};

__global__ void __launch_bounds__(kBodies)
    sum_energy(const float* __restrict__ bodies, float* __restrict__ energy) {
  __shared__ Body cell[kBodies];
  const int tid = threadIdx.x;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kBodies;
  for (int i = tid; i < kBodies * kFields; i += kBodies) {
    reinterpret_cast<float*>(&cell[i / kFields])[i % kFields] = bodies[first * kFields + i];
  }
  __syncthreads();
  const Body own = cell[tid];
  float field = 0.0f;
  for (int k = 1; k < kBodies; ++k) {
    const Body& other = cell[(tid + k) % kBodies];
    const float dx = own.x - other.x;
    const float dy = own.y - other.y;
    const float dz = own.z - other.z;
    field += other.charge * rsqrtf(dx * dx + dy * dy + dz * dz + kSoftening);
  }
  const float square = own.vx * own.vx + own.vy * own.vy + own.vz * own.vz;
  energy[first + tid] = 0.5f * own.mass * square + own.charge * field;
}

}  // namespace

extern "C" int body_energy(const float* bodies, float* energy, std::int64_t cells, void* stream) {
  sum_energy<<<static_cast<int>(cells), kBodies, 0, static_cast<cudaStream_t>(stream)>>>(bodies,
                                                                                         energy);
  return static_cast<int>(cudaGetLastError());
}
