// fix: warp-specialize
// arch: sm_90a sm_100a
// source: kernelkb-judgement
#include <cstdint>

#include <cuda_pipeline.h>
#include <cuda_runtime.h>

constexpr int kTile = 256, kStages = 4;  // n, the number of particles, is a multiple of 256
constexpr unsigned kBytes = kTile * sizeof(float4);

__device__ float pair_term(float4 p, float4 q) {
  const float x = q.x - p.x, y = q.y - p.y, z = q.z - p.z;
  return q.w * rsqrtf(fmaf(x, x, fmaf(y, y, fmaf(z, z, 1e-6f))));
}

namespace before {

// 256 threads copy, wait at a barrier and compute. Grid n / 256.
__global__ void __launch_bounds__(256) potentials(const float4* p, float* out, int n) {
  __shared__ float4 ring[kStages][kTile];
  const int tiles = n / kTile, own = threadIdx.x;
  const float4 at = p[blockIdx.x * kTile + own];
  auto fetch = [&](int t) {
    if (t < tiles) __pipeline_memcpy_async(&ring[t % kStages][own], &p[t * kTile + own], 16);
    __pipeline_commit();
  };
  for (int t = 0; t < kStages - 1; ++t) fetch(t);
  float sum = 0.0f;
  for (int t = 0; t < tiles; ++t) {
    __pipeline_wait_prior(kStages - 2);
    __syncthreads();
    fetch(t + kStages - 1);
    for (int j = 0; j < kTile; ++j) sum += pair_term(at, ring[t % kStages][j]);
  }
  out[blockIdx.x * kTile + own] = sum;
}

}  // namespace before

namespace after {

__device__ unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

__device__ void init(std::uint64_t* barrier, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(arrivals)
               : "memory");
}

__device__ void wait(std::uint64_t* barrier, unsigned parity) {
  unsigned done = 0;
  while (done == 0) {
    asm volatile(
        "{\n.reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
  }
}

__device__ void start_copy(float4* tile, const float4* from, std::uint64_t* full) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                   shared_address(full)),
               "r"(kBytes)
               : "memory");
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1], %2, [%3];" ::"r"(shared_address(tile)),
      "l"(from), "r"(kBytes), "r"(shared_address(full))
      : "memory");
}

// 384 threads: two warp groups compute, the third only copies. Grid n / 256.
// 384 threads start with 168 registers each; 256 * 232 + 128 * 40 is the same sum.
__global__ void __launch_bounds__(384, 1) potentials(const float4* p, float* out, int n) {
  __shared__ __align__(128) float4 ring[kStages][kTile];
  __shared__ std::uint64_t full[kStages], empty[kStages];
  const int tiles = n / kTile, own = threadIdx.x;
  if (own == 0) {
    for (int s = 0; s < kStages; ++s) {
      init(&full[s], 1);
      init(&empty[s], 256);
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  if (own >= 256) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    for (int t = 0; t < tiles && own == 256; ++t) {
      wait(&empty[t % kStages], (t / kStages + 1) % 2);  // at once in the first round
      start_copy(ring[t % kStages], p + t * kTile, &full[t % kStages]);
    }
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  const float4 at = p[blockIdx.x * kTile + own];
  float sum = 0.0f;
  for (int t = 0; t < tiles; ++t) {
    wait(&full[t % kStages], t / kStages % 2);
    for (int j = 0; j < kTile; ++j) sum += pair_term(at, ring[t % kStages][j]);
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(
                     shared_address(&empty[t % kStages]))
                 : "memory");
  }
  out[blockIdx.x * kTile + own] = sum;
}

}  // namespace after
