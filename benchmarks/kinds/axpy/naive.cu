// kernel: axpy/naive/cuda
// shapes: x, y (n,) float32 contiguous -> z (n,) float32; n >= 0
// launch: grid ceil(packs / 256), block 256; one thread per 16 bytes, one per element of the rest
// work: 12 B and 2 FLOP per element, here as well
// weakness: none; device memory is the roof
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kWidth = 4;
constexpr std::uintptr_t kPackBytes = 16;

__global__ void axpy_stream(float a, const float* __restrict__ x, const float* __restrict__ y,
                            float* __restrict__ z, std::int64_t packs, std::int64_t n) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < packs) {
    const float4 u = reinterpret_cast<const float4*>(x)[i];
    const float4 v = reinterpret_cast<const float4*>(y)[i];
    float4 w;
    w.x = a * u.x + v.x;
    w.y = a * u.y + v.y;
    w.z = a * u.z + v.z;
    w.w = a * u.w + v.w;
    reinterpret_cast<float4*>(z)[i] = w;
    return;
  }
  const std::int64_t rest = packs * kWidth + (i - packs);
  if (rest < n) z[rest] = a * x[rest] + y[rest];
}

bool aligned(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % kPackBytes == 0;
}

}  // namespace

extern "C" int axpy(double a, const float* x, const float* y, float* z, std::int64_t n,
                    void* stream) {
  if (n == 0) return 0;
  const std::int64_t packs = aligned(x) && aligned(y) && aligned(z) ? n / kWidth : 0;
  const std::int64_t threads = packs + (n - packs * kWidth);
  const auto blocks = static_cast<unsigned>((threads + kThreads - 1) / kThreads);
  axpy_stream<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(static_cast<float>(a), x,
                                                                          y, z, packs, n);
  return static_cast<int>(cudaGetLastError());
}
