// kernel: cross_entropy_backward_rows/after/cuda
// change: logits are read by __ldcs and gradients written by __stcs
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 512;

__device__ unsigned pair_gradient(unsigned bits, float lse, float scale, int first, int target) {
  const float low = __uint_as_float(bits << 16);
  const float high = __uint_as_float(bits & 0xffff0000u);
  const float left = (expf(low - lse) - (first == target ? 1.0f : 0.0f)) * scale;
  const float right = (expf(high - lse) - (first + 1 == target ? 1.0f : 0.0f)) * scale;
  const __nv_bfloat162 both = __floats2bfloat162_rn(left, right);
  return *reinterpret_cast<const unsigned*>(&both);
}

__global__ void __launch_bounds__(kThreads)
    logit_gradients(const uint4* __restrict__ logits, const float* __restrict__ lse,
                    const int* __restrict__ targets, const float* __restrict__ gradient,
                    uint4* __restrict__ out, int chunks) {
  const std::int64_t row = blockIdx.x;
  const float row_lse = lse[row];
  const float scale = gradient[row];
  const int target = targets[row];
  for (int i = threadIdx.x; i < chunks; i += kThreads) {
    const uint4 in = __ldcs(&logits[row * chunks + i]);
    uint4 result;
    result.x = pair_gradient(in.x, row_lse, scale, 8 * i, target);
    result.y = pair_gradient(in.y, row_lse, scale, 8 * i + 2, target);
    result.z = pair_gradient(in.z, row_lse, scale, 8 * i + 4, target);
    result.w = pair_gradient(in.w, row_lse, scale, 8 * i + 6, target);
    __stcs(&out[row * chunks + i], result);
  }
}

}  // namespace

extern "C" int cross_entropy_backward(const void* logits, const float* lse, const int* targets,
                                      const float* gradient, void* out, std::int64_t rows,
                                      std::int64_t vocab, void* stream) {
  logit_gradients<<<static_cast<unsigned>(rows), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const uint4*>(logits), lse, targets, gradient, static_cast<uint4*>(out),
      static_cast<int>(vocab / 8));
  return static_cast<int>(cudaGetLastError());
}
