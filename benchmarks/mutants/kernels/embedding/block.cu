#include <cuda_runtime.h>
#include <cstdint>

__global__ void embedding_kernel(const float* table, const std::int64_t* index, float* y,
                                 std::int64_t tokens, std::int64_t width) {
  const std::int64_t token = blockIdx.x * 4 + threadIdx.y;
  if (token >= tokens) return;
  for (std::int64_t i = threadIdx.x; i < width; i += 32) {
    y[token * width + i] = table[index[token] * width + i];
  }
}

extern "C" int embedding(const float* table, const std::int64_t* index, float* y,
                         std::int64_t tokens, std::int64_t width, void* stream) {
  const unsigned blocks = (tokens + 3) / 4;
  embedding_kernel<<<blocks, dim3(32, 4), 0, static_cast<cudaStream_t>(stream)>>>(
      table, index, y, tokens, width);
  return cudaGetLastError();
}
