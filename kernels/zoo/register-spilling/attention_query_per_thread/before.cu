// kernel: attention_query_per_thread/before/cuda
// flaw: query and output of a thread are 384 values, more than its registers
#include <cuda_runtime.h>

#include <cfloat>
#include <cstdint>

namespace {

constexpr int kDim = 192;
constexpr int kThreads = 128;
constexpr int kLanes = 1;
constexpr int kQueries = kThreads / kLanes;
constexpr int kChunks = kDim / 4 / kLanes;
constexpr int kStaged = 16;

// seq is a multiple of kStaged. A lane owns every kLanes-th chunk of four values of its query.
__global__ void __launch_bounds__(kThreads)
    attend(const float4* __restrict__ q, const float4* __restrict__ k,
           const float4* __restrict__ v, float4* __restrict__ out, int seq, float scale) {
  __shared__ float4 keys[kStaged][kDim / 4];
  __shared__ float4 values[kStaged][kDim / 4];
  const std::int64_t head = static_cast<std::int64_t>(blockIdx.y) * seq * (kDim / 4);
  const int query = blockIdx.x * kQueries + threadIdx.x / kLanes;
  const int part = threadIdx.x % kLanes;
  const std::int64_t own = head + min(query, seq - 1) * (kDim / 4) + part;
  float4 a[kChunks];
  float4 sum[kChunks];
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    a[c] = q[own + c * kLanes];
    sum[c] = {0.0f, 0.0f, 0.0f, 0.0f};
  }
  float largest = -FLT_MAX;
  float total = 0.0f;
  for (int start = 0; start < seq; start += kStaged) {
    __syncthreads();
    for (int i = threadIdx.x; i < kStaged * (kDim / 4); i += kThreads) {
      keys[i / (kDim / 4)][i % (kDim / 4)] = k[head + start * (kDim / 4) + i];
      values[i / (kDim / 4)][i % (kDim / 4)] = v[head + start * (kDim / 4) + i];
    }
    __syncthreads();
#pragma unroll 1
    for (int j = 0; j < kStaged; ++j) {
      float score = 0.0f;
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        const float4 b = keys[j][c * kLanes + part];
        score += a[c].x * b.x + a[c].y * b.y + a[c].z * b.z + a[c].w * b.w;
      }
      score *= scale;
      if (score > largest) {
        const float shrink = expf(largest - score);
        total *= shrink;
#pragma unroll
        for (int c = 0; c < kChunks; ++c) {
          sum[c].x *= shrink;
          sum[c].y *= shrink;
          sum[c].z *= shrink;
          sum[c].w *= shrink;
        }
        largest = score;
      }
      const float weight = expf(score - largest);
      total += weight;
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        const float4 b = values[j][c * kLanes + part];
        sum[c].x += weight * b.x;
        sum[c].y += weight * b.y;
        sum[c].z += weight * b.z;
        sum[c].w += weight * b.w;
      }
    }
  }
  if (query >= seq) return;
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    out[own + c * kLanes] = {sum[c].x / total, sum[c].y / total, sum[c].z / total,
                             sum[c].w / total};
  }
}

}  // namespace

extern "C" int attention(const float* q, const float* k, const float* v, float* out,
                         std::int64_t heads, std::int64_t seq, void* stream) {
  const dim3 grid(static_cast<unsigned>((seq + kQueries - 1) / kQueries),
                  static_cast<unsigned>(heads));
  attend<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      reinterpret_cast<const float4*>(q), reinterpret_cast<const float4*>(k),
      reinterpret_cast<const float4*>(v), reinterpret_cast<float4*>(out), static_cast<int>(seq),
      rsqrtf(static_cast<float>(kDim)));
  return static_cast<int>(cudaGetLastError());
}
