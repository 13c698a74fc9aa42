// kernel: sinkhorn_log_rows/before/cuda
// flaw: division and exponential of every matrix element are computed to the last bit
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

template <bool kMaximum>
__device__ float reduce(float value, float* partial) {
  for (int offset = 16; offset > 0; offset /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, value, offset);
    value = kMaximum ? fmaxf(value, other) : value + other;
  }
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = partial[0];
  for (int warp = 1; warp < kWarps; ++warp) {
    value = kMaximum ? fmaxf(value, partial[warp]) : value + partial[warp];
  }
  return value;
}

// One block for each row of the cost matrix, which it uses for all the problems of the batch.
__global__ void __launch_bounds__(kThreads)
    scale_rows(const float* __restrict__ cost, const float* __restrict__ column_potential,
               const float* __restrict__ log_mass, float epsilon,
               float* __restrict__ row_potential, int batch, int rows, int cols) {
  __shared__ float partial[2][kWarps];
  const int row = blockIdx.x;
  const float* const own = cost + static_cast<std::int64_t>(row) * cols;
  for (int b = 0; b < batch; ++b) {
    const float* const potential = column_potential + static_cast<std::int64_t>(b) * cols;
    float largest = -INFINITY;
    for (int j = threadIdx.x; j < cols; j += kThreads) {
      largest = fmaxf(largest, (potential[j] - own[j]) / epsilon);
    }
    largest = reduce<true>(largest, partial[0]);
    float sum = 0.0f;
    for (int j = threadIdx.x; j < cols; j += kThreads) {
      sum += expf((potential[j] - own[j]) / epsilon - largest);
    }
    sum = reduce<false>(sum, partial[1]);
    if (threadIdx.x == 0) {
      const std::int64_t at = static_cast<std::int64_t>(b) * rows + row;
      row_potential[at] = epsilon * (log_mass[at] - largest - logf(sum));
    }
  }
}

}  // namespace

extern "C" int sinkhorn_rows(const float* cost, const float* column_potential,
                             const float* log_mass, double epsilon, float* row_potential,
                             std::int64_t batch, std::int64_t n, std::int64_t m, void* stream) {
  scale_rows<<<static_cast<unsigned>(n), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      cost, column_potential, log_mass, static_cast<float>(epsilon), row_potential,
      static_cast<int>(batch), static_cast<int>(n), static_cast<int>(m));
  return static_cast<int>(cudaGetLastError());
}
