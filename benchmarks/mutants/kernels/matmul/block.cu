#include <cuda_runtime.h>
#include <cstdint>

__global__ void matmul_kernel(const float* a, const float* b, float* c, std::int64_t m,
                              std::int64_t n, std::int64_t k) {
  __shared__ float left[16][16];
  __shared__ float right[16][17];
  const std::int64_t row = blockIdx.y * 16 + threadIdx.y;
  const std::int64_t col = blockIdx.x * 16 + threadIdx.x;
  float sum = 0.0f;
  for (std::int64_t first = 0; first < k; first += 16) {
    left[threadIdx.y][threadIdx.x] =
        row < m && first + threadIdx.x < k ? a[row * k + first + threadIdx.x] : 0.0f;
    right[threadIdx.y][threadIdx.x] =
        col < n && first + threadIdx.y < k ? b[(first + threadIdx.y) * n + col] : 0.0f;
    __syncthreads();
    for (int at = 0; at < 16; ++at) {
      sum += left[threadIdx.y][at] * right[at][threadIdx.x];
    }
    __syncthreads();
  }
  if (row < m && col < n) {
    c[row * n + col] = sum;
  }
}

extern "C" int matmul(const float* a, const float* b, float* c, std::int64_t m, std::int64_t n,
                      std::int64_t k, void* stream) {
  const dim3 blocks((n + 15) / 16, (m + 15) / 16);
  matmul_kernel<<<blocks, dim3(16, 16), 0, static_cast<cudaStream_t>(stream)>>>(a, b, c, m, n, k);
  return cudaGetLastError();
}
