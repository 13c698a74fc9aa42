#include <cuda_runtime.h>
#include <cstdint>

__global__ void dequantize_kernel(const std::int8_t* q, const float* scale, const std::int8_t* zero,
                                  float* y, std::int64_t count) {
  const std::int64_t group = std::int64_t(blockIdx.x) * 8 + threadIdx.y;
  if (group >= count) return;
  const float factor = scale[group];
  const float shift = float(zero[group]);
  const std::int64_t i = group * 16 + threadIdx.x;
  y[i] = (float(q[i]) - shift) * factor;
}

extern "C" int dequantize(const std::int8_t* q, const float* scale, const std::int8_t* zero,
                          float* y, std::int64_t rows, std::int64_t groups, void* stream) {
  const std::int64_t count = rows * groups;
  const unsigned blocks = (count + 7) / 8;
  dequantize_kernel<<<blocks, dim3(16, 8), 0, static_cast<cudaStream_t>(stream)>>>(q, scale, zero, y,
                                                                                   count);
  return cudaGetLastError();
}
