// fix: tune-tile-to-wave
// arch: sm_80 sm_90a sm_100a
// source: kernelkb-derivation
#include <cuda_runtime.h>

constexpr int kBlock = 256;

// Each thread makes kOwn outputs, so a block covers a tile of kOwn * kBlock elements.
template <int kOwn>
__global__ void cube_roots(const float* __restrict__ x, float* __restrict__ y, int n) {
  const int first = blockIdx.x * kBlock * kOwn + threadIdx.x;
#pragma unroll
  for (int u = 0; u < kOwn; ++u) {
    const int i = first + u * kBlock;
    if (i < n) y[i] = cbrtf(x[i]);
  }
}

template <int kOwn>
int blocks_for(int n) {
  return (n + kBlock * kOwn - 1) / (kBlock * kOwn);
}

namespace before {

// A fixed tile: 2.1 waves take as long as 3.
void launch(const float* x, float* y, int n, cudaStream_t stream) {
  cube_roots<8><<<blocks_for<8>(n), kBlock, 0, stream>>>(x, y, n);
}

}  // namespace before

namespace after {

// Whole waves times the work of a block; the padding of the last tile counts as work.
template <int kOwn>
long long cost(int n, int sms) {
  int resident = 1;
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, cube_roots<kOwn>, kBlock, 0);
  const int slots = sms * (resident > 0 ? resident : 1);
  return static_cast<long long>((blocks_for<kOwn>(n) + slots - 1) / slots) * kOwn;
}

void launch(const float* x, float* y, int n, cudaStream_t stream) {
  int device = 0, sms = 1;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
  const long long c8 = cost<8>(n, sms), c6 = cost<6>(n, sms), c4 = cost<4>(n, sms);
  if (c8 <= c6 && c8 <= c4) {
    cube_roots<8><<<blocks_for<8>(n), kBlock, 0, stream>>>(x, y, n);
  } else if (c6 <= c4) {
    cube_roots<6><<<blocks_for<6>(n), kBlock, 0, stream>>>(x, y, n);
  } else {
    cube_roots<4><<<blocks_for<4>(n), kBlock, 0, stream>>>(x, y, n);
  }
}

}  // namespace after
