// fix: smaller-tiles
// arch: sm_80 sm_90a sm_100a
// source: gpa
#include <cuda_runtime.h>

// d[i][j] = |x[i] - y[j]| in tiles of kTile by kTile, by 256 threads; m, n divide by 128.
template <int kTile>
__global__ void __launch_bounds__(256)
    distances(const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ d,
              int n) {
  __shared__ float tx[kTile], ty[kTile];
  if (threadIdx.x < kTile) {
    tx[threadIdx.x] = x[blockIdx.y * kTile + threadIdx.x];
    ty[threadIdx.x] = y[blockIdx.x * kTile + threadIdx.x];
  }
  __syncthreads();
  d += static_cast<size_t>(blockIdx.y) * kTile * n + blockIdx.x * kTile;
  for (int i = threadIdx.x; i < kTile * kTile; i += 256) {
    d[static_cast<size_t>(i / kTile) * n + i % kTile] = fabsf(tx[i / kTile] - ty[i % kTile]);
  }
}

namespace before {

// m = 384, n = 512: 12 blocks for 108 or more SMs.
void launch(const float* x, const float* y, float* d, int m, int n, cudaStream_t stream) {
  distances<128><<<dim3(n / 128, m / 128), 256, 0, stream>>>(x, y, d, n);
}

}  // namespace before

namespace after {

// 48 blocks; each element of x and y is loaded twice as often.
void launch(const float* x, const float* y, float* d, int m, int n, cudaStream_t stream) {
  distances<64><<<dim3(n / 64, m / 64), 256, 0, stream>>>(x, y, d, n);
}

}  // namespace after
