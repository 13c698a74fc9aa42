// kernel: transpose_32x24_half/after/cuda
// change: matrices are turned in shared memory, so that writes are contiguous as well
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kRows = 32;
constexpr int kColumns = 24;
constexpr int kCells = kRows * kColumns;
constexpr int kMatrices = 4;
constexpr int kPitch = kColumns + 2;

__global__ void __launch_bounds__(kThreads)
    transpose_small(const __half* __restrict__ in, __half* __restrict__ out, std::int64_t batch) {
  __shared__ __half tile[kMatrices][kRows][kPitch];
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kMatrices;
  const std::int64_t left = batch - first;
  const int cells = static_cast<int>(left < kMatrices ? left : kMatrices) * kCells;
  in += first * kCells;
  out += first * kCells;
  for (int i = threadIdx.x; i < cells; i += kThreads) {
    const int matrix = i / kCells;
    const int row = i % kCells / kColumns;
    const int column = i % kColumns;
    tile[matrix][row][column] = in[i];
  }
  __syncthreads();
  for (int i = threadIdx.x; i < cells; i += kThreads) {
    const int matrix = i / kCells;
    const int column = i % kCells / kRows;
    const int row = i % kRows;
    out[i] = tile[matrix][row][column];
  }
}

}  // namespace

extern "C" int transpose(const void* in, void* out, std::int64_t batch, void* stream) {
  const std::int64_t blocks = (batch + kMatrices - 1) / kMatrices;
  transpose_small<<<static_cast<unsigned>(blocks), kThreads, 0,
                    static_cast<cudaStream_t>(stream)>>>(static_cast<const __half*>(in),
                                                         static_cast<__half*>(out), batch);
  return static_cast<int>(cudaGetLastError());
}
