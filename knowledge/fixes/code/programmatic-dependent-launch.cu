// fix: programmatic-dependent-launch
// arch: sm_90a sm_100a
// source: kernelkb-judgement
#include <cuda_runtime.h>

constexpr int kTable = 256;  // y = table[code] + 2 x; table and code are inputs

namespace before {

__global__ void double_all(float* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= 2.0f;
}

__global__ void look_up(const float* table, const unsigned char* code, const float* x,
                        float* y, int n) {
  __shared__ float local[kTable];
  for (int i = threadIdx.x; i < kTable; i += blockDim.x) local[i] = table[i];
  __syncthreads();
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = local[code[i]] + x[i];
}

void launch(const float* table, const unsigned char* code, float* x, float* y, int n,
            cudaStream_t stream) {
  double_all<<<(n + 255) / 256, 256, 0, stream>>>(x, n);
  look_up<<<(n + 255) / 256, 256, 0, stream>>>(table, code, x, y, n);  // after its end
}

}  // namespace before

namespace after {

__global__ void double_all(float* x, int n) {
  cudaTriggerProgrammaticLaunchCompletion();  // the next grid may take free slots
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= 2.0f;
}

__global__ void look_up(const float* table, const unsigned char* code, const float* x,
                        float* y, int n) {
  __shared__ float local[kTable];
  for (int i = threadIdx.x; i < kTable; i += blockDim.x) local[i] = table[i];  // overlaps
  __syncthreads();
  cudaGridDependencySynchronize();  // from here on all of x is doubled and visible
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = local[code[i]] + x[i];
}

cudaError_t launch(const float* table, const unsigned char* code, float* x, float* y, int n,
                   cudaStream_t stream) {
  double_all<<<(n + 255) / 256, 256, 0, stream>>>(x, n);
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3((n + 255) / 256);
  config.blockDim = dim3(256);
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, look_up, table, code, static_cast<const float*>(x), y, n);
}

}  // namespace after
