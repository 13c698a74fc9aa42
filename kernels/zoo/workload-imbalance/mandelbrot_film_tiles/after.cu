// kernel: mandelbrot_film_tiles/after/cuda
// change: tiles of 16 by 16 pixels, so that twelve times as many blocks even out
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kSide = 16;
constexpr int kTile = 16;
constexpr int kHeight = 480;
constexpr int kWidth = 640;
constexpr int kMaxIterations = 256;
constexpr float kScale = 3.2f / kWidth;

__device__ int count_iterations(float cr, float ci) {
  float zr = 0.0f;
  float zi = 0.0f;
  int k = 0;
  while (k < kMaxIterations) {
    const float rr = zr * zr;
    const float ii = zi * zi;
    if (rr + ii > 4.0f) break;
    zi = 2.0f * zr * zi + ci;
    zr = rr - ii + cr;
    ++k;
  }
  return k;
}

// A block computes one tile of one frame; frame f is centred on (centers[2f], centers[2f + 1]).
__global__ void __launch_bounds__(kSide * kSide)
    render(const float* __restrict__ centers, int* __restrict__ counts) {
  const int frame = blockIdx.z;
  const float left = centers[2 * frame] - 0.6f - 0.5f * kScale * kWidth;
  const float top = centers[2 * frame + 1] - 0.5f * kScale * kHeight;
  for (int y = threadIdx.y; y < kTile; y += kSide) {
    for (int x = threadIdx.x; x < kTile; x += kSide) {
      const int row = blockIdx.y * kTile + y;
      const int column = blockIdx.x * kTile + x;
      if (row < kHeight && column < kWidth) {
        counts[(static_cast<std::int64_t>(frame) * kHeight + row) * kWidth + column] =
            count_iterations(left + kScale * static_cast<float>(column),
                             top + kScale * static_cast<float>(row));
      }
    }
  }
}

}  // namespace

extern "C" int render_film(const float* centers, int* counts, std::int64_t frames, void* stream) {
  const dim3 grid((kWidth + kTile - 1) / kTile, (kHeight + kTile - 1) / kTile,
                  static_cast<unsigned int>(frames));
  const dim3 block(kSide, kSide);
  render<<<grid, block, 0, static_cast<cudaStream_t>(stream)>>>(centers, counts);
  return static_cast<int>(cudaGetLastError());
}
