// kernel: logits_gemv_bf16/after/cuda
// change: a warp walks a row together, 16 bytes per lane
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kVec = 8;

__global__ void __launch_bounds__(kThreads)
    project(const __nv_bfloat16* __restrict__ weight, const __nv_bfloat16* __restrict__ x,
            __nv_bfloat16* __restrict__ y, std::int64_t rows, std::int64_t cols) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (row >= rows) return;
  const int lane = threadIdx.x % 32;
  const __nv_bfloat16* line = weight + row * cols;
  float sum = 0.0f;
  for (std::int64_t i = lane * kVec; i < cols; i += 32 * kVec) {
    const uint4 packed_line = *reinterpret_cast<const uint4*>(line + i);
    const uint4 packed_x = *reinterpret_cast<const uint4*>(x + i);
    const auto* left = reinterpret_cast<const __nv_bfloat162*>(&packed_line);
    const auto* right = reinterpret_cast<const __nv_bfloat162*>(&packed_x);
#pragma unroll
    for (int j = 0; j < kVec / 2; ++j) {
      const float2 l = __bfloat1622float2(left[j]);
      const float2 r = __bfloat1622float2(right[j]);
      sum += l.x * r.x + l.y * r.y;
    }
  }
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (lane == 0) y[row] = __float2bfloat16(sum);
}

}  // namespace

extern "C" int logits(const __nv_bfloat16* weight, const __nv_bfloat16* x, __nv_bfloat16* y,
                      std::int64_t rows, std::int64_t cols, void* stream) {
  const unsigned blocks = static_cast<unsigned>((rows + kWarps - 1) / kWarps);
  project<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(weight, x, y, rows, cols);
  return static_cast<int>(cudaGetLastError());
}
