// fix: strength-reduction
// arch: sm_80 sm_90a sm_100a
// source: gpa
#include <cuda_runtime.h>

// Adds a bias per channel to a tensor of n = batch * channels * plane elements, n < 2^31.
namespace before {

// Two divisions by numbers that the compiler does not know: some 15 instructions each.
__global__ void add_bias(float* x, const float* __restrict__ bias, unsigned channels,
                         unsigned plane, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] += bias[i / plane % channels];
}

}  // namespace before

namespace after {

// Divides numbers below 2^31 by a fixed divisor: one wide multiplication and one shift.
struct Divider {
  unsigned divisor, factor, shift;

  explicit Divider(unsigned d) : divisor(d), factor(0), shift(31) {
    while ((1ull << (shift - 31)) < d) ++shift;  // 2^(shift - 31) is at least d
    factor = static_cast<unsigned>(((1ull << shift) + d - 1) / d);
  }
  __device__ unsigned divide(unsigned i) const {
    return static_cast<unsigned>(static_cast<unsigned long long>(i) * factor >> shift);
  }
  __device__ unsigned remainder(unsigned i) const { return i - divide(i) * divisor; }
};

__global__ void add_bias(float* x, const float* __restrict__ bias, Divider channels,
                         Divider plane, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] += bias[channels.remainder(plane.divide(i))];
}

void launch(float* x, const float* bias, unsigned channels, unsigned plane, unsigned n,
            cudaStream_t stream) {
  add_bias<<<(n + 255) / 256, 256, 0, stream>>>(x, bias, Divider(channels), Divider(plane), n);
}

}  // namespace after
