// fix: tma-pipeline
// arch: sm_90a sm_100a
// source: hopper-dissection
#include <cstdint>

#include <cuda.h>
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

// Column sums of x (rows by cols); grid cols / 128, 128 threads, one column each.
// cols is a multiple of 128, rows of 16; x is aligned to 16 bytes.
constexpr int kRows = 16, kCols = 128, kStages = 4;
constexpr unsigned kBytes = kRows * kCols * sizeof(float);

namespace before {

// Every thread computes four addresses and issues four copies of 16 bytes per tile.
__global__ void column_sums(const float* __restrict__ x, float* __restrict__ out, int rows,
                            int cols) {
  __shared__ __align__(16) float ring[kStages][kRows][kCols];
  const int tiles = rows / kRows, own = threadIdx.x;
  auto fetch = [&](int t) {
    for (int r = own / 32; r < kRows && t < tiles; r += 4) {
      const float* from = x + static_cast<size_t>(t * kRows + r) * cols + blockIdx.x * kCols;
      __pipeline_memcpy_async(&ring[t % kStages][r][own % 32 * 4], from + own % 32 * 4, 16);
    }
    __pipeline_commit();
  };
  for (int t = 0; t < kStages - 1; ++t) fetch(t);
  float sum = 0.0f;
  for (int t = 0; t < tiles; ++t) {
    __pipeline_wait_prior(kStages - 2);
    __syncthreads();
    fetch(t + kStages - 1);
    for (int r = 0; r < kRows; ++r) sum += ring[t % kStages][r][own];
  }
  out[blockIdx.x * kCols + own] = sum;
}

}  // namespace before

namespace after {

__device__ unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// Starts one box of kRows by kCols; its bytes complete the phase of the barrier.
__device__ void start_copy(void* tile, const CUtensorMap& map, int col, int row,
                           std::uint64_t* full) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                   shared_address(full)),
               "r"(kBytes)
               : "memory");
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];" ::"r"(shared_address(tile)),
      "l"(&map), "r"(col), "r"(row), "r"(shared_address(full))
      : "memory");
}

__device__ void wait(std::uint64_t* full, unsigned parity) {
  unsigned done = 0;
  while (done == 0) {
    asm volatile(
        "{\n.reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(shared_address(full)), "r"(parity)
        : "memory");
  }
}

// One elected thread issues one copy per tile; the map holds addresses, pitch and bounds.
__global__ void column_sums(const __grid_constant__ CUtensorMap map, float* out, int rows) {
  __shared__ __align__(128) float ring[kStages][kRows][kCols];
  __shared__ std::uint64_t full[kStages];
  const int tiles = rows / kRows, col = blockIdx.x * kCols, own = threadIdx.x;
  if (own == 0) {
    for (int s = 0; s < kStages; ++s) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&full[s]))
                   : "memory");
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // the copies see them
    for (int t = 0; t < kStages && t < tiles; ++t) {
      start_copy(ring[t], map, col, t * kRows, &full[t]);
    }
  }
  __syncthreads();
  float sum = 0.0f;
  for (int t = 0; t < tiles; ++t) {
    const int s = t % kStages;
    wait(&full[s], t / kStages % 2);
    for (int r = 0; r < kRows; ++r) sum += ring[s][r][own];
    __syncthreads();  // everyone has read the stage
    if (own == 0 && t + kStages < tiles) {
      start_copy(ring[s], map, col, (t + kStages) * kRows, &full[s]);
    }
  }
  out[col + own] = sum;
}

// encode is the driver's cuTensorMapEncodeTiled, from cudaGetDriverEntryPointByVersion.
CUresult make_map(CUtensorMap* map, decltype(&cuTensorMapEncodeTiled) encode, float* x,
                  int rows, int cols) {
  const cuuint64_t sizes[] = {cuuint64_t(cols), cuuint64_t(rows)};
  const cuuint64_t pitches[] = {sizes[0] * sizeof(float)};  // a multiple of 16 bytes
  const cuuint32_t box[] = {kCols, kRows}, every[] = {1, 1};
  return encode(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, x, sizes, pitches, box, every,
                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

}  // namespace after
