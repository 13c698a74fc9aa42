// kernel: dilate_7x7_swizzled/after/cuda
// change: the columns of the tile are permuted by an exclusive or with the row in steps of 4
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kWidth = 32;
constexpr int kHeight = 8;
constexpr int kTaps = 7;
constexpr int kThreads = kWidth * kHeight;
constexpr int kTileWidth = kWidth + kTaps - 1;
constexpr int kTileHeight = kHeight + kTaps - 1;
constexpr int kStride = 64;

__device__ int place(int row, int column) {
  return row * kStride + (column ^ (row % 8 * 4));
}

__global__ void __launch_bounds__(kThreads)
    take_maxima(const float* __restrict__ image, float* __restrict__ out, int h, int w, int ph,
                int pw) {
  __shared__ float tile[kTileHeight * kStride];
  const int tx = threadIdx.x % kWidth, ty = threadIdx.x / kWidth;
  const int x = blockIdx.x * kWidth + tx, y = blockIdx.y * kHeight + ty;
  for (int i = threadIdx.x; i < kTileHeight * kTileWidth; i += kThreads) {
    const int r = i / kTileWidth, c = i % kTileWidth;
    const int from_y = blockIdx.y * kHeight + r, from_x = blockIdx.x * kWidth + c;
    tile[place(r, c)] =
        from_y < ph && from_x < pw ? image[static_cast<std::int64_t>(from_y) * pw + from_x] : 0.0f;
  }
  __syncthreads();
  if (x >= w || y >= h) return;
  float largest = tile[place(ty, tx)];
#pragma unroll
  for (int dy = 0; dy < kTaps; ++dy) {
#pragma unroll
    for (int dx = 0; dx < kTaps; ++dx) {
      largest = fmaxf(largest, tile[place(ty + dy, tx + dx)]);
    }
  }
  out[static_cast<std::int64_t>(y) * w + x] = largest;
}

}  // namespace

extern "C" int dilate(const float* image, float* out, std::int64_t h, std::int64_t w,
                      std::int64_t ph, std::int64_t pw, void* stream) {
  const dim3 grid((w + kWidth - 1) / kWidth, (h + kHeight - 1) / kHeight);
  take_maxima<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      image, out, static_cast<int>(h), static_cast<int>(w), static_cast<int>(ph),
      static_cast<int>(pw));
  return static_cast<int>(cudaGetLastError());
}
