// kernel: row_sums_block_256/before/cuda
// form: 256 threads a row, 8 loads of 16 bytes each
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

// cols is a multiple of 4.
__global__ void __launch_bounds__(kThreads)
    sum_rows(const float* __restrict__ x, float* __restrict__ sums, int cols) {
  __shared__ float of_warp[kWarps];
  const float4* row =
      reinterpret_cast<const float4*>(x + static_cast<std::int64_t>(blockIdx.x) * cols);
  float sum = 0.0f;
#pragma unroll 4
  for (int c = threadIdx.x; c < cols / 4; c += kThreads) {
    const float4 v = row[c];
    sum += (v.x + v.y) + (v.z + v.w);
  }
  for (int s = 16; s > 0; s /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, s);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < kWarps; ++w) sum += of_warp[w];
    sums[blockIdx.x] = sum;
  }
}

}  // namespace

extern "C" int row_sums(const float* x, float* sums, std::int64_t rows, std::int64_t cols,
                        void* stream) {
  sum_rows<<<static_cast<unsigned>(rows), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      x, sums, static_cast<int>(cols));
  return static_cast<int>(cudaGetLastError());
}
