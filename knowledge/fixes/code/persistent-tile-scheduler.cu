// fix: persistent-tile-scheduler
// arch: sm_80 sm_90a sm_100a
// source: kernelkb-judgement
#include <cuda_runtime.h>

constexpr int kTable = 4096, kBlock = 256;  // one tile is 256 elements

namespace before {

// One block for each tile: the table is loaded n / 256 times.
__global__ void look_up(const float* __restrict__ table,
                        const unsigned short* __restrict__ code, float* __restrict__ out,
                        int n) {
  __shared__ float local[kTable];
  for (int i = threadIdx.x; i < kTable; i += kBlock) local[i] = table[i];
  __syncthreads();
  const int i = blockIdx.x * kBlock + threadIdx.x;
  if (i < n) out[i] = local[code[i] % kTable];
}

void launch(const float* table, const unsigned short* code, float* out, int n,
            cudaStream_t stream) {
  look_up<<<(n + kBlock - 1) / kBlock, kBlock, 0, stream>>>(table, code, out, n);
}

}  // namespace before

namespace after {

// As many blocks as fit at once: each loads the table once and strides over the tiles.
__global__ void look_up(const float* __restrict__ table,
                        const unsigned short* __restrict__ code, float* __restrict__ out,
                        int n) {
  __shared__ float local[kTable];
  for (int i = threadIdx.x; i < kTable; i += kBlock) local[i] = table[i];
  __syncthreads();
  const int tiles = (n + kBlock - 1) / kBlock;
  for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int i = tile * kBlock + threadIdx.x;
    if (i < n) out[i] = local[code[i] % kTable];
  }
}

void launch(const float* table, const unsigned short* code, float* out, int n,
            cudaStream_t stream) {
  int device = 0, sms = 1, resident = 1;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, look_up, kBlock, 0);
  const int tiles = (n + kBlock - 1) / kBlock, slots = sms * resident;
  look_up<<<tiles < slots ? tiles : slots, kBlock, 0, stream>>>(table, code, out, n);
}

}  // namespace after
