// fix: algorithm-change
// arch: sm_80 sm_90a sm_100a
// source: kernelkb-judgement
#include <cuda_runtime.h>

// out[q] = sum over k of softmax(query[q] * key[k]) * value[k], one thread per query.
namespace before {

// scores holds n * m floats, which are written once and read twice.
__global__ void attend(const float* __restrict__ query, const float* __restrict__ key,
                       const float* __restrict__ value, float* scores, float* __restrict__ out,
                       int n, int m) {
  const int q = blockIdx.x * blockDim.x + threadIdx.x;
  if (q >= n) return;
  float most = -INFINITY, sum = 0.0f, weighted = 0.0f;
  for (int k = 0; k < m; ++k) {
    const float s = query[q] * key[k];
    scores[static_cast<size_t>(k) * n + q] = s;
    most = fmaxf(most, s);
  }
  for (int k = 0; k < m; ++k) sum += expf(scores[static_cast<size_t>(k) * n + q] - most);
  for (int k = 0; k < m; ++k) {
    weighted += expf(scores[static_cast<size_t>(k) * n + q] - most) / sum * value[k];
  }
  out[q] = weighted;
}

}  // namespace before

namespace after {

// One pass without the matrix: both sums shrink whenever the maximum grows.
__global__ void attend(const float* __restrict__ query, const float* __restrict__ key,
                       const float* __restrict__ value, float* __restrict__ out, int n,
                       int m) {
  const int q = blockIdx.x * blockDim.x + threadIdx.x;
  if (q >= n) return;
  float most = -INFINITY, sum = 0.0f, weighted = 0.0f;
  for (int k = 0; k < m; ++k) {
    const float s = query[q] * key[k];  // finite
    const float next = fmaxf(most, s);
    const float shrink = expf(most - next), weight = expf(s - next);
    sum = fmaf(sum, shrink, weight);
    weighted = fmaf(weighted, shrink, weight * value[k]);
    most = next;
  }
  out[q] = weighted / sum;
}

}  // namespace after
