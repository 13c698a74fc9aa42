// kernel: segment_sum_rows/after/cuda
// change: the sum stays in a register until the end, so the compiler can load 16 rows ahead
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 128;
constexpr int kDim = 32;
constexpr int kSpacing = 512;

__device__ int first_row(const int* shift, int segment, int segments) {
  if (segment == 0) return 0;
  return segment * kSpacing + (segment < segments ? shift[segment] : 0);
}

// Sorted by key: segment s begins shift[s] rows after row 512 s, the first one at row 0.
__global__ void __launch_bounds__(kThreads)
    sum_segments(const float* values, const int* shift, float* out, int segments) {
  const int segment = (blockIdx.x * kThreads + threadIdx.x) / 32;
  const int lane = threadIdx.x % 32;
  if (segment >= segments) return;
  const int begin = first_row(shift, segment, segments);
  const int end = first_row(shift, segment + 1, segments);
  float* own = out + segment * kDim + lane;
  float sum = 0.0f;
  for (int row = begin; row < end; ++row) {
    sum += values[static_cast<std::int64_t>(row) * kDim + lane];
  }
  *own = sum;
}

}  // namespace

extern "C" int segment_sum(const float* values, const int* shift, float* out, std::int64_t rows,
                           std::int64_t segments, void* stream) {
  (void)rows;
  const auto blocks = static_cast<unsigned>((segments * 32 + kThreads - 1) / kThreads);
  sum_segments<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      values, shift, out, static_cast<int>(segments));
  return static_cast<int>(cudaGetLastError());
}
