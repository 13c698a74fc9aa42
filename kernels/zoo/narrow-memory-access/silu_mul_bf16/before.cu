// kernel: silu_mul_bf16/before/cuda
// flaw: each thread moves one value, 2 bytes for each access
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kValues = 1;

__device__ __nv_bfloat16 gated(__nv_bfloat16 gate, __nv_bfloat16 up) {
  const float g = __bfloat162float(gate);
  return __float2bfloat16(g / (1.0f + expf(-g)) * __bfloat162float(up));
}

__global__ void __launch_bounds__(kThreads)
    activate(const __nv_bfloat16* __restrict__ gate_up, __nv_bfloat16* __restrict__ y,
             unsigned size, unsigned dim) {
  const unsigned i = (blockIdx.x * kThreads + threadIdx.x) * kValues;
  if (i >= size) return;
  const __nv_bfloat16* gate = gate_up + i + i / dim * dim;
  y[i] = gated(gate[0], gate[dim]);
}

}  // namespace

extern "C" int silu_mul(const __nv_bfloat16* gate_up, __nv_bfloat16* y, std::int64_t rows,
                        std::int64_t dim, void* stream) {
  const std::int64_t size = rows * dim;
  const std::int64_t threads = (size + kValues - 1) / kValues;
  const int blocks = static_cast<int>((threads + kThreads - 1) / kThreads);
  activate<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      gate_up, y, static_cast<unsigned>(size), static_cast<unsigned>(dim));
  return static_cast<int>(cudaGetLastError());
}
