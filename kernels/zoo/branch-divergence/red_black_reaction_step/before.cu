// kernel: red_black_reaction_step/before/cuda
// flaw: one thread a cell, of which every second only tests its colour and waits
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreadsX = 32;
constexpr int kThreadsY = 8;
constexpr int kSteps = 96;

__device__ float solve(float target) {
  float value = target;
#pragma unroll 16
  for (int step = 0; step < kSteps; ++step) value = target - 0.1f * value * value * value;
  return value;
}

__global__ void __launch_bounds__(kThreadsX* kThreadsY)
    relax_even_cells(float* field, int rows, int cols) {
  const int y = blockIdx.y * kThreadsY + threadIdx.y;
  const int x = blockIdx.x * kThreadsX + threadIdx.x;
  if (x >= cols || y >= rows) return;
  if ((x + y) % 2 != 0) return;
  float* cell = field + static_cast<std::int64_t>(y) * cols + x;
  const float left = x > 0 ? cell[-1] : 0.0f;
  const float right = x + 1 < cols ? cell[1] : 0.0f;
  const float above = y > 0 ? cell[-cols] : 0.0f;
  const float below = y + 1 < rows ? cell[cols] : 0.0f;
  *cell = solve(0.22f * ((left + right) + (above + below)));
}

}  // namespace

extern "C" int relax(const float* start, float* field, std::int64_t rows, std::int64_t cols,
                     void* stream) {
  (void)start;
  const int columns = static_cast<int>(cols);
  const dim3 threads(kThreadsX, kThreadsY);
  const dim3 blocks((columns + kThreadsX - 1) / kThreadsX,
                    static_cast<int>((rows + kThreadsY - 1) / kThreadsY));
  relax_even_cells<<<blocks, threads, 0, static_cast<cudaStream_t>(stream)>>>(
      field, static_cast<int>(rows), columns);
  return static_cast<int>(cudaGetLastError());
}
