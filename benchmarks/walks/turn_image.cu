// walk: {"buffers": {"x": "f32 4096*4096", "y": "f32 4096*4096"}, "sizes": [4096, 4096]}
// toggles: {"FIX_A": ["smem-transpose", "remap-threads-coalesced", "tile-into-smem"], "FIX_B": ["pad-smem", "xor-swizzle"], "FIX_C": ["float-literals", "fp64-to-fp32"], "FIX_D": ["fast-math"], "FIX_E": ["unroll-ilp"]}
#ifdef FIX_B
#define PAD 1
#else
#define PAD 0
#endif
__device__ float shade(float v) {
#ifdef FIX_D
  v = __fdividef(v, 1.0f + fabsf(v));
#else
  v = v / (1.0f + fabsf(v));
#endif
#ifdef FIX_C
  return v * 1.0009765625f + 0.3f * v * v + 0.7f * v * v * v;
#else
  return v * 1.0009765625 + 0.3 * v * v + 0.7 * v * v * v;
#endif
}
__global__ void turn(const float* x, float* y, int rows, int cols) {
#ifdef FIX_A
  __shared__ float tile[32][32 + PAD];
  int c = blockIdx.x * 32 + threadIdx.x, r0 = blockIdx.y * 32;
#ifdef FIX_E
#pragma unroll
#endif
  for (int k = threadIdx.y; k < 32; k += 8) tile[k][threadIdx.x] = x[(size_t)(r0 + k) * cols + c];
  __syncthreads();
  int r = r0 + threadIdx.x, c0 = blockIdx.x * 32;
#ifdef FIX_E
#pragma unroll
#endif
  for (int k = threadIdx.y; k < 32; k += 8) y[(size_t)(c0 + k) * rows + r] = shade(tile[threadIdx.x][k]);
#else
  int c = blockIdx.x * 32 + threadIdx.x;
#ifdef FIX_E
#pragma unroll
#endif
  for (int k = threadIdx.y; k < 32; k += 8) {
    int r = blockIdx.y * 32 + k;
    y[(size_t)c * rows + r] = shade(x[(size_t)r * cols + c]);
  }
#endif
}
extern "C" int run(void** a, const int* n, cudaStream_t s) {
  turn<<<dim3(n[1] / 32, n[0] / 32), dim3(32, 8), 0, s>>>((const float*)a[0], (float*)a[1], n[0], n[1]);
  return cudaGetLastError();
}
