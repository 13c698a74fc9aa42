#include <cuda_runtime.h>
#include <cstdint>

__global__ void attention_kernel(const float* q, const float* k, const float* v, float* y,
                                 std::int64_t queries, std::int64_t keys, std::int64_t width) {
  const std::int64_t query = blockIdx.x;
  const float scale = rsqrtf(float(width));
  for (std::int64_t i = threadIdx.x; i < width; i += 32) {
    float top = -INFINITY;
    float sum = 0.0f;
    float total = 0.0f;
    for (std::int64_t key = 0; key < keys; ++key) {
      float dot = 0.0f;
      for (std::int64_t at = 0; at < width; ++at) {
        dot += q[query * width + at] * k[key * width + at];
      }
      const float score = dot * scale;
      const float higher = fmaxf(top, score);
      const float shrink = expf(top - higher);
      const float power = expf(score - higher);
      sum = sum * shrink + power;
      total = total * shrink + power * v[key * width + i];
      top = higher;
    }
    y[query * width + i] = total / sum;
  }
}

extern "C" int attention(const float* q, const float* k, const float* v, float* y,
                         std::int64_t queries, std::int64_t keys, std::int64_t width,
                         void* stream) {
  attention_kernel<<<queries, 32, 0, static_cast<cudaStream_t>(stream)>>>(q, k, v, y, queries, keys,
                                                                          width);
  return cudaGetLastError();
}
