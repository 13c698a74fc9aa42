// kernel: lstm_cell_update/after/cuda
// change: literals with f and expf
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;

__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-1.0f * x)); }

__device__ __forceinline__ float squash(float x) { return 2.0f / (1.0f + expf(-2.0f * x)) - 1.0f; }

// The four gates of a sample lie one behind the other: input, forget, candidate, output.
__global__ void __launch_bounds__(kThreads)
    update_cells(const __nv_bfloat16* __restrict__ gates, const float* __restrict__ cells,
                 __nv_bfloat16* __restrict__ hidden, float* __restrict__ next,
                 std::int64_t width) {
  const std::int64_t sample = blockIdx.y;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (column >= width) return;
  const __nv_bfloat16* own = gates + sample * 4 * width + column;
  const float input = sigmoid(__bfloat162float(own[0]));
  const float forget = sigmoid(__bfloat162float(own[width]));
  const float candidate = squash(__bfloat162float(own[2 * width]));
  const float output = sigmoid(__bfloat162float(own[3 * width]));
  const float cell = forget * cells[sample * width + column] + input * candidate;
  next[sample * width + column] = cell;
  hidden[sample * width + column] = __float2bfloat16(output * squash(cell));
}

}  // namespace

extern "C" int update_lstm(const __nv_bfloat16* gates, const float* cells, __nv_bfloat16* hidden,
                           float* next, std::int64_t samples, std::int64_t width, void* stream) {
  const dim3 grid(static_cast<unsigned int>((width + kThreads - 1) / kThreads),
                  static_cast<unsigned int>(samples));
  update_cells<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(gates, cells, hidden,
                                                                         next, width);
  return static_cast<int>(cudaGetLastError());
}
