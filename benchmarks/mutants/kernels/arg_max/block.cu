#include <cuda_runtime.h>
#include <cstdint>

__device__ bool is_better(float left, std::int64_t left_at, float right, std::int64_t right_at) {
  if (isnan(left) != isnan(right)) return isnan(left);
  if (left == right || isnan(left)) return left_at < right_at;
  return left > right;
}

__global__ void arg_max_kernel(const float* x, std::int64_t* y, std::int64_t cols) {
  __shared__ float tops[64];
  __shared__ std::int64_t places[64];
  std::int64_t best = 0;
  float top = x[blockIdx.x * cols];
  for (std::int64_t col = threadIdx.x; col < cols; col += 64) {
    const float value = x[blockIdx.x * cols + col];
    if (is_better(value, col, top, best)) {
      top = value;
      best = col;
    }
  }
  tops[threadIdx.x] = top;
  places[threadIdx.x] = best;
  __syncthreads();
  for (int half = 32; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      const int other = threadIdx.x + half;
      if (is_better(tops[other], places[other], tops[threadIdx.x], places[threadIdx.x])) {
        tops[threadIdx.x] = tops[other];
        places[threadIdx.x] = places[other];
      }
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    y[blockIdx.x] = places[0];
  }
}

extern "C" int arg_max(const float* x, std::int64_t* y, std::int64_t rows, std::int64_t cols,
                       void* stream) {
  arg_max_kernel<<<rows, 64, 0, static_cast<cudaStream_t>(stream)>>>(x, y, cols);
  return cudaGetLastError();
}
