// walk: {"buffers": {"x": "u8 33554432", "y": "i32 1024"}, "sizes": [33554432, 251]}
// toggles: {"FIX_A": ["block-privatize", "warp-aggregate-atomics", "two-pass-reduction"], "FIX_B": ["parallelize-outer-dim", "smaller-tiles", "split-k", "split-large-items", "persistent-tile-scheduler", "block-128-256"], "FIX_C": ["vectorize-128b"], "FIX_D": ["unroll-ilp"], "FIX_E": ["streaming-cache-hints"]}
__global__ void count_bytes(const unsigned char* x, int* y, int n, int bins) {
#ifdef FIX_A
  __shared__ int own[256];
  for (int b = threadIdx.x; b < 256; b += blockDim.x) own[b] = 0;
  __syncthreads();
  int* to = own;
#else
  int* to = y;
#endif
  int first = blockIdx.x * blockDim.x + threadIdx.x, step = gridDim.x * blockDim.x;
#ifdef FIX_C
  for (int i = first; i < n / 4; i += step) {
    unsigned v = reinterpret_cast<const unsigned*>(x)[i];
    for (int k = 0; k < 4; ++k) atomicAdd(to + ((v >> (8 * k)) & 255u) % bins, 1);
  }
#else
#ifdef FIX_D
#pragma unroll 4
#endif
  for (int i = first; i < n; i += step) {
#ifdef FIX_E
    int v = __ldcs(x + i);
#else
    int v = x[i];
#endif
    atomicAdd(to + v % bins, 1);
  }
#endif
#ifdef FIX_A
  __syncthreads();
  for (int b = threadIdx.x; b < bins; b += blockDim.x) if (own[b]) atomicAdd(y + b, own[b]);
#endif
}
extern "C" int run(void** a, const int* n, cudaStream_t s) {
#ifdef FIX_B
  int grid = 132 * 8;
#else
  int grid = 24;
#endif
  count_bytes<<<grid, 256, 0, s>>>((const unsigned char*)a[0], (int*)a[1], n[0], n[1]);
  return cudaGetLastError();
}
