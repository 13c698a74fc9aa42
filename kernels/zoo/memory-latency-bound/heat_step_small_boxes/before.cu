// kernel: heat_step_small_boxes/before/cuda
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kWidth = 32;
constexpr int kHeight = 8;
constexpr int kBoxWidth = kWidth + 8;  // a border of one, in 16 bytes: where boxes start, too
constexpr int kBoxHeight = kHeight + 2;
constexpr int kBoxBytes = kBoxWidth * kBoxHeight * 4;

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

// Starts the copy of a box; its bytes count towards the barrier's phase.
__device__ __forceinline__ void copy_box(unsigned tile, const CUtensorMap& map, int column, int row,
                                         unsigned barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
      "[%1, {%2, %3}], [%4];" ::"r"(tile),
      "l"(reinterpret_cast<std::uint64_t>(&map)), "r"(column), "r"(row), "r"(barrier)
      : "memory");
}

__global__ void __launch_bounds__(kThreads)
    spread_heat(const __grid_constant__ CUtensorMap map, float* __restrict__ to, int height,
                int width, float share) {
  __shared__ __align__(128) float box[kBoxHeight][kBoxWidth];
  __shared__ __align__(8) std::uint64_t barrier;
  const unsigned loaded = static_cast<unsigned>(__cvta_generic_to_shared(&barrier));
  const int first_x = blockIdx.x * kWidth, first_y = blockIdx.y * kHeight;
  if (threadIdx.x == 0) {
    init_barrier(loaded, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    arrive_and_expect(loaded, kBoxBytes);
    copy_box(static_cast<unsigned>(__cvta_generic_to_shared(box)), map, first_x - 4, first_y - 1,
             loaded);
  }
  __syncthreads();
  wait_for_phase(loaded, 0);
#pragma unroll
  for (int i = threadIdx.x; i < kWidth * kHeight; i += kThreads) {
    const int x = i % kWidth, y = i / kWidth;
    const float own = box[y + 1][x + 4];
    const float around = box[y][x + 4] + box[y + 2][x + 4] + box[y + 1][x + 3] + box[y + 1][x + 5];
    if (first_x + x < width && first_y + y < height) {
      to[static_cast<std::int64_t>(first_y + y) * width + first_x + x] =
          own + share * (around - 4.0f * own);
    }
  }
}

// Maps an image in boxes; what lies outside of it is zero.
bool encode_map(CUtensorMap* map, const float* image, std::int64_t height, std::int64_t width) {
  static const auto encode = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result;
    cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault,
                                     &result);
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(found);
  }();
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(width), static_cast<cuuint64_t>(height)};
  const cuuint64_t pitches[] = {static_cast<cuuint64_t>(width) * sizeof(float)};
  const cuuint32_t box[] = {kBoxWidth, kBoxHeight}, every[] = {1, 1};
  return encode != nullptr &&
         encode(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, const_cast<float*>(image), sizes, pitches,
                box, every, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

}  // namespace

extern "C" int heat_step(const float* from, float* to, std::int64_t height, std::int64_t width,
                         void* stream) {
  CUtensorMap map;
  if (width % 4 != 0 || !encode_map(&map, from, height, width)) {
    return static_cast<int>(cudaErrorInvalidValue);
  }
  const dim3 blocks(static_cast<unsigned>((width + kWidth - 1) / kWidth),
                    static_cast<unsigned>((height + kHeight - 1) / kHeight));
  spread_heat<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      map, to, static_cast<int>(height), static_cast<int>(width), 0.2f);
  return static_cast<int>(cudaGetLastError());
}
