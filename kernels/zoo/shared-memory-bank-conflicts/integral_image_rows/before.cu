// kernel: integral_image_rows/before/cuda
// flaw: the lanes of a warp walk stretches 16 words apart in shared memory, all in two banks
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kPerThread = 16;
constexpr int kMaxWidth = kThreads * kPerThread;

__device__ int place(int i) { return i; }

__device__ int sum_before(int value) {
  __shared__ int warp_sums[kWarps];
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  int inclusive = value;
  for (int offset = 1; offset < 32; offset *= 2) {
    const int other = __shfl_up_sync(0xffffffffu, inclusive, offset);
    if (lane >= offset) inclusive += other;
  }
  if (lane == 31) warp_sums[warp] = inclusive;
  __syncthreads();
  int before = inclusive - value;
  for (int w = 0; w < warp; ++w) before += warp_sums[w];
  return before;
}

__global__ void __launch_bounds__(kThreads)
    sum_rows(const std::uint8_t* __restrict__ image, int* __restrict__ out, int width) {
  __shared__ int line[kMaxWidth];
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * width;
  for (int i = threadIdx.x; i < kMaxWidth; i += kThreads) {
    line[place(i)] = i < width ? image[row + i] : 0;
  }
  __syncthreads();
  const int first = threadIdx.x * kPerThread;
  int total = 0;
  for (int k = 0; k < kPerThread; ++k) total += line[place(first + k)];
  int sum = sum_before(total);
  for (int k = 0; k < kPerThread; ++k) {
    sum += line[place(first + k)];
    line[place(first + k)] = sum;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < width; i += kThreads) out[row + i] = line[place(i)];
}

}  // namespace

extern "C" int integral_image_rows(const std::uint8_t* image, int* out, std::int64_t rows,
                                   std::int64_t width, void* stream) {
  sum_rows<<<static_cast<unsigned>(rows), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      image, out, static_cast<int>(width));
  return static_cast<int>(cudaGetLastError());
}
