// kernel: swiglu_interleaved/before/cuda
// flaw: each thread loads a gate and an up value of 2 bytes and stores 2 bytes
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;

__device__ __nv_bfloat16 swiglu(__nv_bfloat16 gate, __nv_bfloat16 up) {
  const float g = __bfloat162float(gate);
  return __float2bfloat16(g / (1.0f + __expf(-g)) * __bfloat162float(up));
}

__global__ void __launch_bounds__(kThreads)
    apply_swiglu(const __nv_bfloat16* __restrict__ in, __nv_bfloat16* __restrict__ out, int count) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= count) return;
  out[i] = swiglu(in[2 * i], in[2 * i + 1]);
}

}  // namespace

extern "C" int swiglu_interleaved(const __nv_bfloat16* in, __nv_bfloat16* out, std::int64_t tokens,
                                  std::int64_t width, void* stream) {
  const std::int64_t count = tokens * width;
  const auto blocks = static_cast<unsigned>((count + kThreads - 1) / kThreads);
  apply_swiglu<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      in, out, static_cast<int>(count));
  return static_cast<int>(cudaGetLastError());
}
