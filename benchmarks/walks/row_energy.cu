// walk: {"buffers": {"x": "f32 16384*1024", "y": "f32 16384"}, "sizes": [16384, 1024]}
// toggles: {"FIX_A": ["remap-threads-coalesced", "warp-cooperative-gather", "smem-transpose"], "FIX_B": ["float-literals", "fp64-to-fp32"], "FIX_C": ["vectorize-128b"], "FIX_D": ["l1-cache-readonly"], "FIX_E": ["launch-bounds"]}
#ifdef FIX_B
#define LITERAL(v) v##f
#else
#define LITERAL(v) v
#endif
#ifdef FIX_D
#define READ(p) __ldg(p)
#else
#define READ(p) (*(p))
#endif
#ifdef FIX_E
__launch_bounds__(256, 2)
#endif
__global__ void measure_rows(const float* x, float* y, int rows, int cols) {
#ifdef FIX_A
  int row = blockIdx.x * 8 + threadIdx.x / 32, first = threadIdx.x % 32, step = 32;
#else
  int row = blockIdx.x * 256 + threadIdx.x, first = 0, step = 1;
#endif
  if (row >= rows) return;
  const float* from = x + (size_t)row * cols;
  float total = 0.0f;
#ifdef FIX_C
  for (int c = first; c < cols / 4; c += step) {
    float4 v = reinterpret_cast<const float4*>(from)[c];
    total += LITERAL(0.5) * v.x * v.x + LITERAL(0.25) * v.x + LITERAL(0.5) * v.y * v.y + LITERAL(0.25) * v.y;
    total += LITERAL(0.5) * v.z * v.z + LITERAL(0.25) * v.z + LITERAL(0.5) * v.w * v.w + LITERAL(0.25) * v.w;
  }
#else
  for (int c = first; c < cols; c += step) {
    float v = READ(from + c);
    total += LITERAL(0.5) * v * v + LITERAL(0.25) * v;
  }
#endif
#ifdef FIX_A
  for (int d = 16; d; d /= 2) total += __shfl_down_sync(0xffffffffu, total, d);
  if (first == 0) y[row] = total;
#else
  y[row] = total;
#endif
}
extern "C" int run(void** a, const int* n, cudaStream_t s) {
#ifdef FIX_A
  int grid = (n[0] + 7) / 8;
#else
  int grid = (n[0] + 255) / 256;
#endif
  measure_rows<<<grid, 256, 0, s>>>((const float*)a[0], (float*)a[1], n[0], n[1]);
  return cudaGetLastError();
}
