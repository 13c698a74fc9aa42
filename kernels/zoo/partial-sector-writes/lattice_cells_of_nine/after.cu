// kernel: lattice_cells_of_nine/after/cuda
// change: a block collects its cells in shared memory and writes them as one row
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 128;
constexpr int kLinks = 9;
constexpr float kRate = 1.2f;

__global__ void __launch_bounds__(kThreads)
    stream_and_collide(const float* __restrict__ from, float* __restrict__ to, int height,
                       int width) {
  __shared__ float cells[kThreads * kLinks];
  constexpr int kLinkX[kLinks] = {0, 1, 0, -1, 0, 1, -1, -1, 1};
  constexpr int kLinkY[kLinks] = {0, 0, 1, 0, -1, 1, 1, -1, -1};
  constexpr float kWeights[kLinks] = {4.0f / 9,  1.0f / 9,  1.0f / 9,  1.0f / 9, 1.0f / 9,
                                      1.0f / 36, 1.0f / 36, 1.0f / 36, 1.0f / 36};
  const int first = blockIdx.x * kThreads, y = blockIdx.y;
  const int x = min(first + static_cast<int>(threadIdx.x), width - 1);
  const int left = x > 0 ? x - 1 : width - 1, right = x + 1 < width ? x + 1 : 0;
  const int above = y > 0 ? y - 1 : height - 1, below = y + 1 < height ? y + 1 : 0;
  float population[kLinks];
  float density = 0.0f, flow_x = 0.0f, flow_y = 0.0f;
#pragma unroll
  for (int q = 0; q < kLinks; ++q) {
    const int source_x = kLinkX[q] > 0 ? left : kLinkX[q] < 0 ? right : x;
    const int source_y = kLinkY[q] > 0 ? above : kLinkY[q] < 0 ? below : y;
    population[q] = from[(static_cast<std::int64_t>(source_y) * width + source_x) * kLinks + q];
    density += population[q];
    flow_x += kLinkX[q] * population[q];
    flow_y += kLinkY[q] * population[q];
  }
  const float inverse = 1.0f / fmaxf(density, 1e-6f);
  const float speed_x = flow_x * inverse, speed_y = flow_y * inverse;
  const float energy = 1.5f * (speed_x * speed_x + speed_y * speed_y);
  float* cell = cells + threadIdx.x * kLinks;
#pragma unroll
  for (int q = 0; q < kLinks; ++q) {
    const float along = 3.0f * (kLinkX[q] * speed_x + kLinkY[q] * speed_y);
    const float balance = kWeights[q] * density * (1.0f + along + 0.5f * along * along - energy);
    cell[q] = population[q] + kRate * (balance - population[q]);
  }
  __syncthreads();
  const int count = min(kThreads, width - first) * kLinks;
  float* row = to + (static_cast<std::int64_t>(y) * width + first) * kLinks;
  for (int i = threadIdx.x; i < count; i += kThreads) row[i] = cells[i];
}

}  // namespace

extern "C" int lattice_step(const float* from, float* to, std::int64_t height, std::int64_t width,
                            void* stream) {
  const dim3 blocks(static_cast<unsigned>((width + kThreads - 1) / kThreads),
                    static_cast<unsigned>(height));
  stream_and_collide<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      from, to, static_cast<int>(height), static_cast<int>(width));
  return static_cast<int>(cudaGetLastError());
}
