// walk: {"buffers": {"next": "i32 1048576", "y": "i32 131072"}, "sizes": [1048576, 131072, 64]}
// toggles: {"FIX_A": ["unroll-ilp"], "FIX_B": ["load-early-use-late", "prefetch-indices"], "FIX_C": ["multiple-accumulators", "thread-coarsening"], "FIX_D": ["l1-cache-readonly"], "FIX_E": ["block-128-256", "round-block-to-warp", "raise-occupancy"]}
#ifdef FIX_E
#define BLOCK 256
#else
#define BLOCK 16
#endif
#ifdef FIX_C
#define CHAINS 4
#else
#define CHAINS 1
#endif
#ifdef FIX_D
#define READ(p) __ldg(p)
#else
#define READ(p) (*(p))
#endif
__global__ void follow(const int* next, int* y, int n, int count, int steps) {
  int i = (blockIdx.x * BLOCK + threadIdx.x) * CHAINS;
  if (i >= count) return;
  int at[CHAINS], sum[CHAINS];
  for (int k = 0; k < CHAINS; ++k) { at[k] = (i + k) * 7 % n; sum[k] = 0; }
#ifdef FIX_A
#pragma unroll 8
#else
#pragma unroll 1
#endif
  for (int s = 0; s < steps; ++s) {
#pragma unroll
    for (int k = 0; k < CHAINS; ++k) {
#ifdef FIX_B
      int ahead = READ(next + at[k]) & (n - 1);
      sum[k] += at[k];
      at[k] = ahead;
#else
      at[k] = READ(next + at[k]) & (n - 1);
      sum[k] += at[k];
#endif
    }
  }
  for (int k = 0; k < CHAINS; ++k) y[i + k] = sum[k];
}
extern "C" int run(void** a, const int* n, cudaStream_t s) {
  follow<<<(n[1] / CHAINS + BLOCK - 1) / BLOCK, BLOCK, 0, s>>>((const int*)a[0], (int*)a[1], n[0], n[1], n[2]);
  return cudaGetLastError();
}
