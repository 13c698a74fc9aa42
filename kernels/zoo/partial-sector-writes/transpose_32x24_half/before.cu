// kernel: transpose_32x24_half/before/cuda
// flaw: reads are contiguous, but neighbouring lanes write 64 bytes apart
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kRows = 32;
constexpr int kColumns = 24;
constexpr int kCells = kRows * kColumns;
constexpr int kMatrices = 4;

__global__ void __launch_bounds__(kThreads)
    transpose_small(const __half* __restrict__ in, __half* __restrict__ out, std::int64_t batch) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kMatrices;
  const std::int64_t left = batch - first;
  const int cells = static_cast<int>(left < kMatrices ? left : kMatrices) * kCells;
  in += first * kCells;
  out += first * kCells;
  for (int i = threadIdx.x; i < cells; i += kThreads) {
    const int matrix = i / kCells;
    const int row = i % kCells / kColumns;
    const int column = i % kColumns;
    out[matrix * kCells + column * kRows + row] = in[i];
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
