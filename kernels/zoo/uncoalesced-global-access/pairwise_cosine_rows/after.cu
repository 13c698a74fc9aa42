// kernel: pairwise_cosine_rows/after/cuda
// change: tiles of 16 rows by 16 columns of both arrays pass through shared memory
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kTile = 16;

// A thread a pair of rows.
__global__ void __launch_bounds__(kTile * kTile)
    cosine(const __half* __restrict__ a, const __half* __restrict__ b, float* __restrict__ out,
           std::int64_t n, std::int64_t m, std::int64_t d) {
  __shared__ float rows_a[kTile][kTile + 1];
  __shared__ float rows_b[kTile][kTile + 1];
  const int x = threadIdx.x;
  const int y = threadIdx.y;
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.y) * kTile + y;
  const std::int64_t j = static_cast<std::int64_t>(blockIdx.x) * kTile + x;
  const std::int64_t row_b = static_cast<std::int64_t>(blockIdx.x) * kTile + y;
  const int size = static_cast<int>(d);
  float dot = 0.0f;
  float square_a = 0.0f;
  float square_b = 0.0f;
  for (int start = 0; start < size; start += kTile) {
    const int column = start + x;
    rows_a[y][x] = i < n && column < size ? __half2float(a[i * d + column]) : 0.0f;
    rows_b[y][x] = row_b < m && column < size ? __half2float(b[row_b * d + column]) : 0.0f;
    __syncthreads();
    for (int k = 0; k < kTile; ++k) {
      const float left = rows_a[y][k];
      const float right = rows_b[x][k];
      dot += left * right;
      square_a += left * left;
      square_b += right * right;
    }
    __syncthreads();
  }
  if (i < n && j < m) out[i * m + j] = dot * rsqrtf(square_a * square_b + 1e-12f);
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
