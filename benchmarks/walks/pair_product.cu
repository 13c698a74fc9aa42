// walk: {"buffers": {"x": "f32 1024*1024", "w": "f32 1024*1024", "y": "f32 1024*1024"}, "sizes": [1024, 1024, 1024]}
// toggles: {"FIX_A": ["remap-threads-coalesced"], "FIX_B": ["tile-into-smem", "larger-block-tile"], "FIX_C": ["fp64-to-fp32", "float-literals", "reduce-precision"], "FIX_D": ["unroll-ilp", "multiple-accumulators"], "FIX_E": ["l1-cache-readonly", "launch-bounds"]}
#ifdef FIX_C
typedef float Sum;
#else
typedef double Sum;
#endif
#ifdef FIX_E
#define LOAD(p) __ldg(p)
#else
#define LOAD(p) (*(p))
#endif
__global__ void multiply(const float* x, const float* w, float* y, int m, int n, int k) {
#ifdef FIX_A
  int col = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 32 + threadIdx.y;
#else
  int row = blockIdx.x * 32 + threadIdx.x, col = blockIdx.y * 32 + threadIdx.y;
#endif
  Sum total = 0;
#ifdef FIX_B
  __shared__ float xs[32][33], ws[32][33];
  int r0 = row - (row % 32), c0 = col - (col % 32);
  for (int t = 0; t < k; t += 32) {
    xs[threadIdx.y][threadIdx.x] = LOAD(x + (r0 + threadIdx.y) * k + t + threadIdx.x);
    ws[threadIdx.y][threadIdx.x] = LOAD(w + (t + threadIdx.y) * n + c0 + threadIdx.x);
    __syncthreads();
#ifdef FIX_D
#pragma unroll
#else
#pragma unroll 1
#endif
    for (int i = 0; i < 32; ++i) total += xs[row % 32][i] * ws[i][col % 32];
    __syncthreads();
  }
#else
#ifdef FIX_D
#pragma unroll 8
#else
#pragma unroll 1
#endif
  for (int i = 0; i < k; ++i) total += LOAD(x + row * k + i) * LOAD(w + i * n + col);
#endif
  y[row * n + col] = total;
}
extern "C" int run(void** a, const int* n, cudaStream_t s) {
  multiply<<<dim3(n[0] / 32, n[1] / 32), dim3(32, 32), 0, s>>>((const float*)a[0], (const float*)a[1], (float*)a[2], n[0], n[1], n[2]);
  return cudaGetLastError();
}
