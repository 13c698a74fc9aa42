// kernel: scale_add_bulk_ring/after/cuda
// change: eight rows in flight a block instead of three
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 132 * 2;
constexpr int kMaxColumns = 2048;
constexpr int kStages = 8;
constexpr int kRowBytes = kMaxColumns * 2;
constexpr int kSharedBytes = kStages * 2 * kRowBytes;

__device__ __forceinline__ void init_barrier(unsigned barrier, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void arrive_and_expect(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

// Waits until the phase of this parity has ended.
__device__ __forceinline__ void wait_for_phase(unsigned barrier, unsigned parity) {
  unsigned done = 0;
  while (done == 0) {
    asm volatile(
        "{\n.reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
  }
}

// Starts a copy of bytes, a multiple of 16; they count towards the barrier's phase.
__device__ __forceinline__ void copy_bulk(unsigned target, const void* source, unsigned bytes,
                                          unsigned barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(target),
      "l"(source), "r"(bytes), "r"(barrier)
      : "memory");
}

__global__ void __launch_bounds__(kThreads)
    scale_add_rows(const __half* __restrict__ x, const __half* __restrict__ y,
                   const float* __restrict__ scale, __half* __restrict__ out, std::int64_t rows,
                   int columns) {
  extern __shared__ __align__(128) unsigned char ring[];
  __shared__ __align__(8) std::uint64_t barriers[kStages];
  const unsigned slots = static_cast<unsigned>(__cvta_generic_to_shared(ring));
  const unsigned full = static_cast<unsigned>(__cvta_generic_to_shared(barriers));
  const unsigned bytes = columns * 2;
  auto load_row = [&](std::int64_t row, int s) {
    arrive_and_expect(full + 8 * s, 2 * bytes);
    copy_bulk(slots + 2 * s * kRowBytes, x + row * columns, bytes, full + 8 * s);
    copy_bulk(slots + (2 * s + 1) * kRowBytes, y + row * columns, bytes, full + 8 * s);
  };
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) init_barrier(full + 8 * s, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    for (int s = 0; s < kStages; ++s) {
      const std::int64_t row = blockIdx.x + static_cast<std::int64_t>(s) * gridDim.x;
      if (row < rows) load_row(row, s);
    }
  }
  __syncthreads();
  int i = 0;
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x, ++i) {
    const int s = i % kStages;
    const float factor = scale[row];
    wait_for_phase(full + 8 * s, i / kStages % 2);
    for (int at = 8 * threadIdx.x; at < columns; at += 8 * kThreads) {
      const uint4 left = *reinterpret_cast<const uint4*>(ring + 2 * s * kRowBytes + 2 * at);
      const uint4 right = *reinterpret_cast<const uint4*>(ring + (2 * s + 1) * kRowBytes + 2 * at);
      const __half2* p = reinterpret_cast<const __half2*>(&left);
      const __half2* q = reinterpret_cast<const __half2*>(&right);
      uint4 result;
      __half2* r = reinterpret_cast<__half2*>(&result);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float2 u = __half22float2(p[j]), v = __half22float2(q[j]);
        r[j] = __floats2half2_rn(fmaf(factor, u.x, v.x), fmaf(factor, u.y, v.y));
      }
      *reinterpret_cast<uint4*>(out + row * columns + at) = result;
    }
    __syncthreads();
    const std::int64_t next = row + static_cast<std::int64_t>(kStages) * gridDim.x;
    if (threadIdx.x == 0 && next < rows) load_row(next, s);
  }
}

}  // namespace

extern "C" int scale_add(const __half* x, const __half* y, const float* scale, __half* out,
                         std::int64_t rows, std::int64_t columns, void* stream) {
  cudaFuncSetAttribute(scale_add_rows, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
  scale_add_rows<<<kBlocks, kThreads, kSharedBytes, static_cast<cudaStream_t>(stream)>>>(
      x, y, scale, out, rows, static_cast<int>(columns));
  return static_cast<int>(cudaGetLastError());
}
