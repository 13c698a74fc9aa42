// kernel: charge_to_clustered_cells/before/cuda
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kEdge = 64;

// A particle's cell along one axis, and how far it lies beyond it.
__device__ __forceinline__ int find_cell(float draw, float& beyond) {
  const float share = fminf(fabsf(draw), 1.0f);
  const float place = share * share * share * share * kEdge;
  const float cell = floorf(place);
  beyond = place - cell;
  return static_cast<int>(cell) % kEdge;
}

__global__ void __launch_bounds__(kThreads)
    deposit_charges(const float2* __restrict__ draws, const float* __restrict__ charges,
                    float* __restrict__ cells, int n) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= n) return;
  const float2 draw = draws[i];
  const float charge = charges[i];
  float right, down;
  const int x = find_cell(draw.x, right), y = find_cell(draw.y, down);
  const int next_x = (x + 1) % kEdge, next_y = (y + 1) % kEdge;
  atomicAdd(&cells[y * kEdge + x], charge * (1.0f - right) * (1.0f - down));
  atomicAdd(&cells[y * kEdge + next_x], charge * right * (1.0f - down));
  atomicAdd(&cells[next_y * kEdge + x], charge * (1.0f - right) * down);
  atomicAdd(&cells[next_y * kEdge + next_x], charge * right * down);
}

}  // namespace

extern "C" int deposit(const float2* draws, const float* charges, const float* start, float* cells,
                       std::int64_t n, void* stream) {
  (void)start;
  const int blocks = static_cast<int>((n + kThreads - 1) / kThreads);
  deposit_charges<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      draws, charges, cells, static_cast<int>(n));
  return static_cast<int>(cudaGetLastError());
}
