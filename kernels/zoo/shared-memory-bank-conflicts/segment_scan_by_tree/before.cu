// kernel: segment_scan_by_tree/before/cuda
// flaw: the nodes of a level of the tree lie powers of two apart, in few banks
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kLength = 512;
constexpr int kThreads = kLength / 2;

__device__ constexpr int slot(int i) { return i; }

__global__ void __launch_bounds__(kThreads)
    scan_rows(const float* __restrict__ x, float* __restrict__ y) {
  __shared__ float node[slot(kLength)];
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kLength;
  const int tid = threadIdx.x;
  const float low = x[first + tid];
  const float high = x[first + tid + kThreads];
  node[slot(tid)] = low;
  node[slot(tid + kThreads)] = high;
  for (int stride = 1; stride < kLength; stride *= 2) {
    __syncthreads();
    const int right = 2 * stride * (tid + 1) - 1;
    if (right < kLength) node[slot(right)] += node[slot(right - stride)];
  }
  if (tid == 0) node[slot(kLength - 1)] = 0.0f;
  for (int stride = kLength / 2; stride > 0; stride /= 2) {
    __syncthreads();
    const int right = 2 * stride * (tid + 1) - 1;
    if (right < kLength) {
      const float left = node[slot(right - stride)];
      node[slot(right - stride)] = node[slot(right)];
      node[slot(right)] += left;
    }
  }
  __syncthreads();
  y[first + tid] = node[slot(tid)] + low;
  y[first + tid + kThreads] = node[slot(tid + kThreads)] + high;
}

}  // namespace

extern "C" int scan(const float* x, float* y, std::int64_t n, void* stream) {
  scan_rows<<<static_cast<int>(n), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(x, y);
  return static_cast<int>(cudaGetLastError());
}
