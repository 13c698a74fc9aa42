// kernel: causal_attention_tile_order/before/cuda
// flaw: blocks start in order of growing work, so that the longest run alone at the end
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kChannels = 64;
constexpr int kQueries = 128;
constexpr int kKeys = 32;
constexpr float kScale = 0.125f;

__global__ void __launch_bounds__(kQueries)
    attend(const float4* __restrict__ q, const float4* __restrict__ k, const float4* __restrict__ v,
           float4* __restrict__ out, int tokens) {
  constexpr int kVectors = kChannels / 4;
  __shared__ float4 keys[kKeys][kVectors];
  __shared__ float4 values[kKeys][kVectors];
  const int tile = blockIdx.y;
  const std::int64_t head = static_cast<std::int64_t>(blockIdx.x) * tokens;
  const int query = tile * kQueries + threadIdx.x;
  const std::int64_t own = (head + min(query, tokens - 1)) * kVectors;
  float4 question[kVectors];
  float4 sum[kVectors];
#pragma unroll
  for (int c = 0; c < kVectors; ++c) {
    question[c] = q[own + c];
    sum[c] = make_float4(0.f, 0.f, 0.f, 0.f);
  }
  float largest = -1e30f, total = 0.f;
  const int end = min(tokens, (tile + 1) * kQueries);
  for (int first = 0; first < end; first += kKeys) {
    __syncthreads();
    for (int e = threadIdx.x; e < kKeys * kVectors; e += kQueries) {
      const std::int64_t row = (head + min(first + e / kVectors, tokens - 1)) * kVectors;
      keys[e / kVectors][e % kVectors] = k[row + e % kVectors];
      values[e / kVectors][e % kVectors] = v[row + e % kVectors];
    }
    __syncthreads();
    const int count = min(kKeys, min(query, tokens - 1) + 1 - first);
    for (int j = 0; j < count; ++j) {
      float score = 0.f, other = 0.f;
#pragma unroll
      for (int c = 0; c < kVectors; ++c) {
        const float4 key = keys[j][c];
        score = fmaf(question[c].x, key.x, fmaf(question[c].y, key.y, score));
        other = fmaf(question[c].z, key.z, fmaf(question[c].w, key.w, other));
      }
      score = (score + other) * kScale;
      if (score > largest) {
        const float shrink = expf(largest - score);
        largest = score;
        total *= shrink;
#pragma unroll
        for (int c = 0; c < kVectors; ++c) {
          sum[c].x *= shrink, sum[c].y *= shrink, sum[c].z *= shrink, sum[c].w *= shrink;
        }
      }
      const float weight = expf(score - largest);
      total += weight;
#pragma unroll
      for (int c = 0; c < kVectors; ++c) {
        const float4 value = values[j][c];
        sum[c].x = fmaf(weight, value.x, sum[c].x);
        sum[c].y = fmaf(weight, value.y, sum[c].y);
        sum[c].z = fmaf(weight, value.z, sum[c].z);
        sum[c].w = fmaf(weight, value.w, sum[c].w);
      }
    }
  }
  if (query >= tokens) return;
  const float share = 1.f / total;
#pragma unroll
  for (int c = 0; c < kVectors; ++c) {
    out[own + c] = make_float4(sum[c].x * share, sum[c].y * share, sum[c].z * share,
                               sum[c].w * share);
  }
}

}  // namespace

extern "C" int causal_attention(const float* q, const float* k, const float* v, float* out,
                                std::int64_t heads, std::int64_t tokens, void* stream) {
  const dim3 grid(static_cast<unsigned>(heads),
                  static_cast<unsigned>((tokens + kQueries - 1) / kQueries));
  attend<<<grid, kQueries, 0, static_cast<cudaStream_t>(stream)>>>(
      reinterpret_cast<const float4*>(q), reinterpret_cast<const float4*>(k),
      reinterpret_cast<const float4*>(v), reinterpret_cast<float4*>(out),
      static_cast<int>(tokens));
  return static_cast<int>(cudaGetLastError());
}
