// kernel: charge_to_clustered_cells/two-particles/cuda
// change: a thread loads two particles at a time
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
  const int first = 2 * (blockIdx.x * kThreads + threadIdx.x);
  if (first >= n) return;
  float4 pair;
  float2 both;
  if (first + 1 < n) {
    pair = reinterpret_cast<const float4*>(draws)[first / 2];
    both = reinterpret_cast<const float2*>(charges)[first / 2];
  } else {
    pair = make_float4(draws[first].x, draws[first].y, 0.0f, 0.0f);
    both = make_float2(charges[first], 0.0f);
  }
#pragma unroll
  for (int p = 0; p < 2; ++p) {
    if (first + p >= n) break;
    const float2 draw = p == 0 ? make_float2(pair.x, pair.y) : make_float2(pair.z, pair.w);
    const float charge = p == 0 ? both.x : both.y;
    float right, down;
    const int x = find_cell(draw.x, right), y = find_cell(draw.y, down);
    const int next_x = (x + 1) % kEdge, next_y = (y + 1) % kEdge;
    atomicAdd(&cells[y * kEdge + x], charge * (1.0f - right) * (1.0f - down));
    atomicAdd(&cells[y * kEdge + next_x], charge * right * (1.0f - down));
    atomicAdd(&cells[next_y * kEdge + x], charge * (1.0f - right) * down);
    atomicAdd(&cells[next_y * kEdge + next_x], charge * right * down);
  }
}

}  // namespace

extern "C" int deposit(const float2* draws, const float* charges, const float* start, float* cells,
                       std::int64_t n, void* stream) {
  (void)start;
  const int blocks = static_cast<int>((n + 2 * kThreads - 1) / (2 * kThreads));
  deposit_charges<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      draws, charges, cells, static_cast<int>(n));
  return static_cast<int>(cudaGetLastError());
}
