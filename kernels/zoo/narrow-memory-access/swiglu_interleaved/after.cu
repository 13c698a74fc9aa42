// kernel: swiglu_interleaved/after/cuda
// change: each thread loads 4 pairs with 16 bytes and stores 4 results with 8 bytes
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kPerThread = 4;

struct alignas(16) Pairs {
  __nv_bfloat16 at[2 * kPerThread];
};
struct alignas(8) Results {
  __nv_bfloat16 at[kPerThread];
};

__device__ __nv_bfloat16 swiglu(__nv_bfloat16 gate, __nv_bfloat16 up) {
  const float g = __bfloat162float(gate);
  return __float2bfloat16(g / (1.0f + __expf(-g)) * __bfloat162float(up));
}

__global__ void __launch_bounds__(kThreads)
    apply_swiglu(const Pairs* __restrict__ in, Results* __restrict__ out, int count) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= count) return;
  const Pairs pairs = in[i];
  Results results;
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) {
    results.at[k] = swiglu(pairs.at[2 * k], pairs.at[2 * k + 1]);
  }
  out[i] = results;
}

}  // namespace

extern "C" int swiglu_interleaved(const __nv_bfloat16* in, __nv_bfloat16* out, std::int64_t tokens,
                                  std::int64_t width, void* stream) {
  const std::int64_t count = tokens * width / kPerThread;
  const auto blocks = static_cast<unsigned>((count + kThreads - 1) / kThreads);
  apply_swiglu<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      reinterpret_cast<const Pairs*>(in), reinterpret_cast<Results*>(out),
      static_cast<int>(count));
  return static_cast<int>(cudaGetLastError());
}
