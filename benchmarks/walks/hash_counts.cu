// walk: {"buffers": {"x": "u8 8388608", "y": "i32 1024"}, "sizes": [8388608, 1021]}
// toggles: {"FIX_A": ["warp-aggregate-atomics"], "FIX_B": ["block-privatize"], "FIX_C": ["spread-replicas"], "FIX_D": ["vectorize-128b"], "FIX_E": ["parallelize-outer-dim", "smaller-tiles"]}
__global__ void count_keys(const unsigned char* x, int* y, int n, int bins) {
#ifdef FIX_B
#ifdef FIX_C
#define COPIES 4
#else
#define COPIES 1
#endif
  __shared__ int own[1024 * COPIES];
  for (int b = threadIdx.x; b < 1024 * COPIES; b += blockDim.x) own[b] = 0;
  __syncthreads();
  int* to = own + (threadIdx.x / 32 % COPIES) * 1024;
#else
  int* to = y;
#endif
  int first = blockIdx.x * blockDim.x + threadIdx.x, step = gridDim.x * blockDim.x;
#ifdef FIX_D
  for (int i = first; i < n / 4; i += step) {
    unsigned v = reinterpret_cast<const unsigned*>(x)[i];
    for (int k = 0; k < 4; ++k) {
      int bin = (((v >> (8 * k)) & 255u) * 2654435761u >> 7) % bins;
#else
  for (int i = first; i < n; i += step) {
    {
      int bin = (x[i] * 2654435761u >> 7) % bins;
#endif
#ifdef FIX_A
      unsigned same = __match_any_sync(__activemask(), bin);
      if ((threadIdx.x & 31) == __ffs(same) - 1) atomicAdd(to + bin, __popc(same));
#else
      atomicAdd(to + bin, 1);
#endif
    }
  }
#ifdef FIX_B
  __syncthreads();
  for (int b = threadIdx.x; b < bins; b += blockDim.x) {
    int total = 0;
    for (int k = 0; k < COPIES; ++k) total += own[b + 1024 * k];
    if (total) atomicAdd(y + b, total);
  }
#endif
}
extern "C" int run(void** a, const int* n, cudaStream_t s) {
#ifdef FIX_E
  int grid = 132 * 6;
#else
  int grid = 66;
#endif
  count_keys<<<grid, 256, 0, s>>>((const unsigned char*)a[0], (int*)a[1], n[0], n[1]);
  return cudaGetLastError();
}
