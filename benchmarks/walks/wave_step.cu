// walk: {"buffers": {"x": "f32 4096*4096", "y": "f32 4096*4096"}, "sizes": [4096, 4096]}
// toggles: {"FIX_A": ["remap-threads-coalesced"], "FIX_B": ["strength-reduction", "fast-math", "algebraic-rewrite", "inline-math"], "FIX_C": ["block-128-256", "round-block-to-warp"], "FIX_D": ["tile-into-smem"], "FIX_E": ["l1-cache-readonly", "streaming-cache-hints"]}
#ifdef FIX_C
#define BX 32
#define BY 8
#else
#define BX 8
#define BY 1
#endif
__global__ void step_wave(const float* x, float* y, int rows, int cols) {
#ifdef FIX_A
  int c = blockIdx.x * BX + threadIdx.x, r = blockIdx.y * BY + threadIdx.y;
#else
  int r = blockIdx.x * BX + threadIdx.x, c = blockIdx.y * BY + threadIdx.y;
#endif
#ifdef FIX_D
  __shared__ float own[BY][BX];
  own[threadIdx.y][threadIdx.x] = x[(size_t)r * cols + c];
  __syncthreads();
  float here = own[threadIdx.y][threadIdx.x];
#else
  float here = x[(size_t)r * cols + c];
#endif
  if (r == 0 || c == 0 || r == rows - 1 || c == cols - 1) return;
#ifdef FIX_E
  float around = __ldg(x + (size_t)(r - 1) * cols + c) + __ldg(x + (size_t)(r + 1) * cols + c) + __ldg(x + (size_t)r * cols + c - 1) + __ldg(x + (size_t)r * cols + c + 1);
#else
  float around = x[(size_t)(r - 1) * cols + c] + x[(size_t)(r + 1) * cols + c] + x[(size_t)r * cols + c - 1] + x[(size_t)r * cols + c + 1];
#endif
#ifdef FIX_B
  float bent = here * here * here;
#else
  float bent = powf(here, 3.0f) + powf(fabsf(around), 1.5f) * 0.0f;
#endif
  y[(size_t)r * cols + c] = 0.25f * around - here + 0.01f * bent;
}
extern "C" int run(void** a, const int* n, cudaStream_t s) {
#ifdef FIX_A
  dim3 grid(n[1] / BX, n[0] / BY);
#else
  dim3 grid(n[0] / BX, n[1] / BY);
#endif
  step_wave<<<grid, dim3(BX, BY), 0, s>>>((const float*)a[0], (float*)a[1], n[0], n[1]);
  return cudaGetLastError();
}
