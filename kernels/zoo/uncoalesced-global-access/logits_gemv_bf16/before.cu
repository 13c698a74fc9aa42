// kernel: logits_gemv_bf16/before/cuda
// flaw: a thread walks a row by itself, so that a warp reads 32 distant places at a time
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    project(const __nv_bfloat16* __restrict__ weight, const __nv_bfloat16* __restrict__ x,
            __nv_bfloat16* __restrict__ y, std::int64_t rows, std::int64_t cols) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (row >= rows) return;
  const __nv_bfloat16* line = weight + row * cols;
  float sum = 0.0f;
  for (std::int64_t i = 0; i < cols; ++i) {
    sum += __bfloat162float(line[i]) * __bfloat162float(x[i]);
  }
  y[row] = __float2bfloat16(sum);
}

}  // namespace

extern "C" int logits(const __nv_bfloat16* weight, const __nv_bfloat16* x, __nv_bfloat16* y,
                      std::int64_t rows, std::int64_t cols, void* stream) {
  const unsigned blocks = static_cast<unsigned>((rows + kThreads - 1) / kThreads);
  project<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(weight, x, y, rows, cols);
  return static_cast<int>(cudaGetLastError());
}
