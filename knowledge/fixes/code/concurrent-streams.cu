// fix: concurrent-streams
// arch: sm_80 sm_90a sm_100a
// source: kernelkb-judgement
#include <cuda_runtime.h>

constexpr int kParts = 4;  // independent arrays, each too small to fill the GPU

__global__ void relax(float* x, int n) {  // one block
  for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = 0.5f * x[i] + 1.0f;
}

__global__ void combine(const float* a, const float* b, const float* c, const float* d,
                        float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a[i] + b[i] + c[i] + d[i];
}

namespace before {

void run(float* const (&x)[kParts], float* out, int n, cudaStream_t stream) {
  for (int p = 0; p < kParts; ++p) relax<<<1, 256, 0, stream>>>(x[p], n);  // in series
  combine<<<(n + 255) / 256, 256, 0, stream>>>(x[0], x[1], x[2], x[3], out, n);
}

}  // namespace before

namespace after {

// side: streams made with cudaStreamNonBlocking; events: cudaEventDisableTiming.
void run(float* const (&x)[kParts], float* out, int n, cudaStream_t stream,
         cudaStream_t (&side)[kParts], cudaEvent_t ready, cudaEvent_t (&done)[kParts]) {
  cudaEventRecord(ready, stream);
  for (int p = 0; p < kParts; ++p) {
    cudaStreamWaitEvent(side[p], ready, 0);  // after earlier work of the main stream
    relax<<<1, 256, 0, side[p]>>>(x[p], n);
    cudaEventRecord(done[p], side[p]);
    cudaStreamWaitEvent(stream, done[p], 0);  // before later work of the main stream
  }
  combine<<<(n + 255) / 256, 256, 0, stream>>>(x[0], x[1], x[2], x[3], out, n);
}

}  // namespace after
