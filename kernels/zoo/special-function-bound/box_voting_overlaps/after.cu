// kernel: box_voting_overlaps/after/cuda
// change: fast intrinsics for the two divisions and the exponential
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr float kSigma = 0.1f;

__device__ __forceinline__ float weigh(float inter, float joint) {
  const float miss = 1.0f - __fdividef(inter, joint);
  return __expf(__fdividef(-(miss * miss), kSigma));
}

// A thread a box (x, y, width, height); the image's other boxes pass through shared memory.
__global__ void __launch_bounds__(kThreads)
    vote(const float4* __restrict__ boxes, const float* __restrict__ scores,
         float* __restrict__ voted, std::int64_t n) {
  __shared__ float4 tile[kThreads];
  __shared__ float tile_scores[kThreads];
  const int count = static_cast<int>(n);
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.y) * n;
  const int i = blockIdx.x * kThreads + threadIdx.x;
  const float4 own = boxes[first + min(i, count - 1)];
  const float right = own.x + own.z;
  const float bottom = own.y + own.w;
  const float area = own.z * own.w;
  float weights = 0.0f;
  float sum = 0.0f;
  for (int start = 0; start < count; start += kThreads) {
    const int j = start + threadIdx.x;
    if (j < count) {
      tile[threadIdx.x] = boxes[first + j];
      tile_scores[threadIdx.x] = scores[first + j];
    }
    __syncthreads();
    const int end = min(kThreads, count - start);
    for (int k = 0; k < end; ++k) {
      const float4 other = tile[k];
      const float width = fminf(right, other.x + other.z) - fmaxf(own.x, other.x);
      const float height = fminf(bottom, other.y + other.w) - fmaxf(own.y, other.y);
      const float inter = fmaxf(width, 0.0f) * fmaxf(height, 0.0f);
      const float joint = area + other.z * other.w - inter + 1e-6f;
      const float weight = weigh(inter, joint);
      weights += weight;
      sum += weight * tile_scores[k];
    }
    __syncthreads();
  }
  if (i < count) voted[first + i] = sum / weights;
}

}  // namespace

extern "C" int vote_scores(const float* boxes, const float* scores, float* voted,
                           std::int64_t images, std::int64_t n, void* stream) {
  const dim3 grid(static_cast<unsigned int>((n + kThreads - 1) / kThreads),
                  static_cast<unsigned int>(images));
  vote<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      reinterpret_cast<const float4*>(boxes), scores, voted, n);
  return static_cast<int>(cudaGetLastError());
}
