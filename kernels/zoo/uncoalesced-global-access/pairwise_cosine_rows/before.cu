// kernel: pairwise_cosine_rows/before/cuda
// flaws: neighbouring threads read rows that lie far apart, and every row is read again for each
// pair; either cure alone leaves the other
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kTile = 16;

// A thread a pair of rows.
__global__ void __launch_bounds__(kTile * kTile)
    cosine(const __half* __restrict__ a, const __half* __restrict__ b, float* __restrict__ out,
           std::int64_t n, std::int64_t m, std::int64_t d) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.y) * kTile + threadIdx.y;
  const std::int64_t j = static_cast<std::int64_t>(blockIdx.x) * kTile + threadIdx.x;
  if (i >= n || j >= m) return;
  const int size = static_cast<int>(d);
  float dot = 0.0f;
  float square_a = 0.0f;
  float square_b = 0.0f;
  for (int k = 0; k < size; ++k) {
    const float left = __half2float(a[i * d + k]);
    const float right = __half2float(b[j * d + k]);
    dot += left * right;
    square_a += left * left;
    square_b += right * right;
  }
  out[i * m + j] = dot * rsqrtf(square_a * square_b + 1e-12f);
}

}  // namespace

extern "C" int compare_rows(const __half* a, const __half* b, float* out, std::int64_t n,
                            std::int64_t m, std::int64_t d, void* stream) {
  const dim3 grid(static_cast<unsigned int>((m + kTile - 1) / kTile),
                  static_cast<unsigned int>((n + kTile - 1) / kTile));
  const dim3 block(kTile, kTile);
  cosine<<<grid, block, 0, static_cast<cudaStream_t>(stream)>>>(a, b, out, n, m, d);
  return static_cast<int>(cudaGetLastError());
}
