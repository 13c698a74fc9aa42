// kernel: median_5x5_int16/before/cuda
// flaw: none in the loads: the minima and maxima of the selection take the time
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kBlockX = 32;
constexpr int kBlockY = 8;
constexpr int kHalo = 2;
constexpr int kSide = 2 * kHalo + 1;
constexpr int kHeld = 14;  // the median of 25 is not among the extremes of any 14 of them

__device__ __forceinline__ void order(int& low, int& high) {
  const int smaller = min(low, high);
  high = max(low, high);
  low = smaller;
}

// Moves the smallest of held[0 .. count-1] to the front and the largest to the end.
template <int count>
__device__ __forceinline__ void part_extremes(int (&held)[kHeld]) {
#pragma unroll
  for (int i = 1; i < count; ++i) order(held[0], held[i]);
#pragma unroll
  for (int i = 1; i < count - 1; ++i) order(held[i], held[count - 1]);
}

// Drops the two extremes of the held values and takes in the next pixel, until three are left.
template <int count>
__device__ __forceinline__ int select_median(int (&held)[kHeld],
                                             const int (&pixels)[kSide * kSide]) {
  part_extremes<count>(held);
  if constexpr (count == 3) {
    return held[1];
  } else {
    held[0] = pixels[kSide * kSide - count + 3];
    return select_median<count - 1>(held, pixels);
  }
}

__global__ void __launch_bounds__(kBlockX* kBlockY)
    median(const std::int16_t* __restrict__ in, std::int16_t* __restrict__ out, int h, int w) {
  const int x = blockIdx.x * kBlockX + threadIdx.x;
  const int y = blockIdx.y * kBlockY + threadIdx.y;
  if (x >= w || y >= h) return;
  const std::int16_t* center = in + static_cast<std::int64_t>(y) * w + x;
  std::int16_t result = *center;
  if (x >= kHalo && x < w - kHalo && y >= kHalo && y < h - kHalo) {
    int pixels[kSide * kSide];
#pragma unroll
    for (int i = 0; i < kSide; ++i) {
#pragma unroll
      for (int j = 0; j < kSide; ++j) {
        pixels[i * kSide + j] = center[static_cast<std::int64_t>(i - kHalo) * w + j - kHalo];
      }
    }
    int held[kHeld];
#pragma unroll
    for (int i = 0; i < kHeld; ++i) held[i] = pixels[i];
    result = static_cast<std::int16_t>(select_median<kHeld>(held, pixels));
  }
  out[static_cast<std::int64_t>(y) * w + x] = result;
}

}  // namespace

extern "C" int median_filter(const std::int16_t* in, std::int16_t* out, std::int64_t h,
                             std::int64_t w, void* stream) {
  const dim3 block(kBlockX, kBlockY);
  const dim3 grid(static_cast<unsigned>((w + kBlockX - 1) / kBlockX),
                  static_cast<unsigned>((h + kBlockY - 1) / kBlockY));
  median<<<grid, block, 0, static_cast<cudaStream_t>(stream)>>>(in, out, static_cast<int>(h),
                                                               static_cast<int>(w));
  return static_cast<int>(cudaGetLastError());
}
