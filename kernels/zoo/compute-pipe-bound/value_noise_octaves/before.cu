// kernel: value_noise_octaves/before/cuda
// flaw: frequency and amplitude of every octave are powers computed by powf
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kBlockX = 32;
constexpr int kBlockY = 4;
constexpr int kLattice = 64;
constexpr float kPitch = 3.0f / 512.0f;

__device__ float smooth(float t) { return t * t * (3.0f - 2.0f * t); }

__device__ float noise(const float* __restrict__ lattice, float x, float y) {
  const float cell_x = floorf(x);
  const float cell_y = floorf(y);
  const int x0 = static_cast<int>(cell_x) & (kLattice - 1);
  const int y0 = static_cast<int>(cell_y) & (kLattice - 1);
  const int x1 = (x0 + 1) & (kLattice - 1);
  const int y1 = (y0 + 1) & (kLattice - 1);
  const float u = smooth(x - cell_x);
  const float v = smooth(y - cell_y);
  const float top_left = lattice[y0 * kLattice + x0];
  const float top_right = lattice[y0 * kLattice + x1];
  const float bottom_left = lattice[y1 * kLattice + x0];
  const float bottom_right = lattice[y1 * kLattice + x1];
  const float top = top_left + u * (top_right - top_left);
  const float bottom = bottom_left + u * (bottom_right - bottom_left);
  return top + v * (bottom - top);
}

__global__ void __launch_bounds__(kBlockX* kBlockY)
    add_noise(const float* __restrict__ terrain, const float* __restrict__ lattice, float gain,
              float lacunarity, int octaves, float* __restrict__ image, std::int64_t height,
              std::int64_t width) {
  const int col = blockIdx.x * kBlockX + threadIdx.x;
  const int row = blockIdx.y * kBlockY + threadIdx.y;
  if (row >= height || col >= width) return;
  const float x = static_cast<float>(col) * kPitch;
  const float y = static_cast<float>(row) * kPitch;
  float sum = 0.0f;
  for (int octave = 0; octave < octaves; ++octave) {
    const float frequency = powf(lacunarity, static_cast<float>(octave));
    const float amplitude = powf(gain, static_cast<float>(octave));
    sum += amplitude * noise(lattice, x * frequency, y * frequency);
  }
  const std::int64_t pixel = static_cast<std::int64_t>(row) * width + col;
  image[pixel] = terrain[pixel] + sum;
}

}  // namespace

extern "C" int noise_image(const float* terrain, const float* lattice, double gain,
                           double lacunarity, std::int64_t octaves, float* image,
                           std::int64_t height, std::int64_t width, void* stream) {
  const dim3 block(kBlockX, kBlockY);
  const dim3 grid(static_cast<unsigned>((width + kBlockX - 1) / kBlockX),
                  static_cast<unsigned>((height + kBlockY - 1) / kBlockY));
  add_noise<<<grid, block, 0, static_cast<cudaStream_t>(stream)>>>(
      terrain, lattice, static_cast<float>(gain), static_cast<float>(lacunarity),
      static_cast<int>(octaves), image, height, width);
  return static_cast<int>(cudaGetLastError());
}
