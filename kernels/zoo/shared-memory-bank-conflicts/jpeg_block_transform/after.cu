// kernel: jpeg_block_transform/after/cuda
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kEdge = 8;
constexpr int kBlocks = kThreads / kEdge;  // image blocks of a thread block, side by side
constexpr int kPitch = kEdge + 1;
constexpr int kSize = kEdge * kPitch;

constexpr float kC1 = 0.490392640f, kC2 = 0.461939766f, kC3 = 0.415734806f, kC4 = 0.353553391f;
constexpr float kC5 = 0.277785117f, kC6 = 0.191341716f, kC7 = 0.097545161f;

// The cosine transform of eight values, orthonormal.
__device__ __forceinline__ void transform(float (&v)[kEdge]) {
  const float s0 = v[0] + v[7], s1 = v[1] + v[6], s2 = v[2] + v[5], s3 = v[3] + v[4];
  const float d0 = v[0] - v[7], d1 = v[1] - v[6], d2 = v[2] - v[5], d3 = v[3] - v[4];
  v[0] = kC4 * ((s0 + s3) + (s1 + s2));
  v[4] = kC4 * ((s0 + s3) - (s1 + s2));
  v[2] = kC2 * (s0 - s3) + kC6 * (s1 - s2);
  v[6] = kC6 * (s0 - s3) - kC2 * (s1 - s2);
  v[1] = kC1 * d0 + kC3 * d1 + kC5 * d2 + kC7 * d3;
  v[3] = kC3 * d0 - kC7 * d1 - kC1 * d2 - kC5 * d3;
  v[5] = kC5 * d0 - kC1 * d1 + kC7 * d2 + kC3 * d3;
  v[7] = kC7 * d0 - kC5 * d1 + kC3 * d2 - kC1 * d3;
}

// A thread block takes 32 neighbouring image blocks; each thread one row of one, then one column.
__global__ void __launch_bounds__(kThreads)
    transform_blocks(const std::uint8_t* __restrict__ pixels, const float* __restrict__ scales,
                     float* __restrict__ coefficients, int columns) {
  __shared__ float tile[kBlocks * kSize];
  const int own = threadIdx.x / kEdge, line = threadIdx.x % kEdge;
  const int column = blockIdx.x * kBlocks + own;
  const int width = columns * kEdge;
  const bool inside = column < columns;
  const std::int64_t corner = static_cast<std::int64_t>(blockIdx.y) * kEdge * width;
  const int x = blockIdx.x * kThreads + threadIdx.x;
  float* block = tile + own * kSize;
#pragma unroll
  for (int y = 0; y < kEdge; ++y) {
    const float value = inside ? static_cast<float>(pixels[corner + y * width + x]) : 128.0f;
    block[y * kPitch + line] = value - 128.0f;
  }
  __syncthreads();
  float v[kEdge];
#pragma unroll
  for (int k = 0; k < kEdge; ++k) v[k] = block[line * kPitch + k];
  transform(v);
#pragma unroll
  for (int k = 0; k < kEdge; ++k) block[line * kPitch + k] = v[k];
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kEdge; ++k) v[k] = block[k * kPitch + line];
  transform(v);
  if (!inside) return;
  float* out =
      coefficients + (static_cast<std::int64_t>(blockIdx.y) * columns + column) * kEdge * kEdge;
#pragma unroll
  for (int k = 0; k < kEdge; ++k) {
    out[k * kEdge + line] = v[k] * scales[k * kEdge + line];
  }
}

}  // namespace

extern "C" int transform_image(const std::uint8_t* pixels, const float* scales,
                               float* coefficients, std::int64_t rows, std::int64_t columns,
                               void* stream) {
  const dim3 grid(static_cast<unsigned>((columns + kBlocks - 1) / kBlocks),
                  static_cast<unsigned>(rows));
  transform_blocks<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      pixels, scales, coefficients, static_cast<int>(columns));
  return static_cast<int>(cudaGetLastError());
}
