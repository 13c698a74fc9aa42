// kernel: balance/naive/cuda
// shapes: opening (n,) float32, months (n,) int32, not negative -> closing (n,) float32; n >= 0
// launch: grid ceil(n / 256), block 256; one thread per account
// work: algorithm 12 B and about 8 FLOP per account, in closed form; here 3 FLOP per month
// tolerance: float32 atol 1.0e-3 rtol 1.0e-4 matched_ratio 1.0 max_error 2.0
// weakness: lanes with few months idle until the longest of their warp is done
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr float kRate = 1.0f / 256.0f;  // exact

__global__ void balance_month_by_month(const float* __restrict__ opening,
                                       const std::int32_t* __restrict__ months,
                                       float* __restrict__ closing, std::int64_t n) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float balance = opening[i];
  const int last = months[i];
  for (int month = 0; month < last; ++month) {
    balance = balance + balance * kRate + 1.0f;
  }
  closing[i] = balance;
}

}  // namespace

extern "C" int balance(const float* opening, const std::int32_t* months, float* closing,
                       std::int64_t n, void* stream) {
  if (n == 0) return 0;
  const auto blocks = static_cast<unsigned>((n + kThreads - 1) / kThreads);
  balance_month_by_month<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      opening, months, closing, n);
  return static_cast<int>(cudaGetLastError());
}
