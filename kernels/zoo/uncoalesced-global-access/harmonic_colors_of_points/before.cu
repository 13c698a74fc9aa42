// kernel: harmonic_colors_of_points/before/cuda
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kTerms = 16;

__device__ __forceinline__ void evaluate_basis(float x, float y, float z, float (&basis)[kTerms]) {
  const float scale = rsqrtf(x * x + y * y + z * z + 1e-12f);
  x *= scale, y *= scale, z *= scale;
  const float xx = x * x, yy = y * y, zz = z * z;
  basis[0] = 0.28209479f;
  basis[1] = -0.48860251f * y;
  basis[2] = 0.48860251f * z;
  basis[3] = -0.48860251f * x;
  basis[4] = 1.09254843f * x * y;
  basis[5] = -1.09254843f * y * z;
  basis[6] = 0.31539157f * (2.0f * zz - xx - yy);
  basis[7] = -1.09254843f * x * z;
  basis[8] = 0.54627422f * (xx - yy);
  basis[9] = -0.59004359f * y * (3.0f * xx - yy);
  basis[10] = 2.89061144f * x * y * z;
  basis[11] = -0.45704580f * y * (4.0f * zz - xx - yy);
  basis[12] = 0.37317633f * z * (2.0f * zz - 3.0f * xx - 3.0f * yy);
  basis[13] = -0.45704580f * x * (4.0f * zz - xx - yy);
  basis[14] = 1.44530572f * z * (xx - yy);
  basis[15] = -0.59004359f * x * (xx - 3.0f * yy);
}

__global__ void __launch_bounds__(kThreads)
    shade_points(const float* __restrict__ directions, const float* __restrict__ coefficients,
                 float* __restrict__ colors, int n) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= n) return;
  float basis[kTerms];
  evaluate_basis(directions[3 * i], directions[3 * i + 1], directions[3 * i + 2], basis);
  const float* own = coefficients + static_cast<std::int64_t>(i) * kTerms * 3;
  float red = 0.5f, green = 0.5f, blue = 0.5f;
#pragma unroll
  for (int k = 0; k < kTerms; ++k) {
    red += basis[k] * own[3 * k];
    green += basis[k] * own[3 * k + 1];
    blue += basis[k] * own[3 * k + 2];
  }
  colors[3 * i] = fmaxf(red, 0.0f);
  colors[3 * i + 1] = fmaxf(green, 0.0f);
  colors[3 * i + 2] = fmaxf(blue, 0.0f);
}

}  // namespace

extern "C" int shade(const float* directions, const float* coefficients, float* colors,
                     std::int64_t n, void* stream) {
  const int blocks = static_cast<int>((n + kThreads - 1) / kThreads);
  shade_points<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      directions, coefficients, colors, static_cast<int>(n));
  return static_cast<int>(cudaGetLastError());
}
