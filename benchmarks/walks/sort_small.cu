// walk: {"buffers": {"x": "f32 4194304*8", "y": "f32 4194304"}, "sizes": [4194304]}
// toggles: {"FIX_A": ["constant-index-local", "local-array-to-smem", "shuffle-instead-of-array", "select-chain"], "FIX_B": ["aos-to-soa", "remap-threads-coalesced", "smem-transpose", "data-layout-flatten", "vectorize-128b"], "FIX_C": ["float-literals", "fp64-to-fp32"], "FIX_D": ["launch-bounds", "relax-register-cap"], "FIX_E": ["l1-cache-readonly", "streaming-cache-hints"]}
#ifdef FIX_C
#define LITERAL(v) v##f
#else
#define LITERAL(v) v
#endif
#ifdef FIX_D
__launch_bounds__(256, 4)
#endif
__global__ void take_middle(const float* x, float* y, int n) {
  int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  float v[8];
#pragma unroll
  for (int k = 0; k < 8; ++k) {
#ifdef FIX_B
    const float* from = x + (size_t)k * n + i;
#else
    const float* from = x + (size_t)i * 8 + k;
#endif
#ifdef FIX_E
    v[k] = __ldg(from);
#else
    v[k] = *from;
#endif
  }
#ifdef FIX_A
#pragma unroll
  for (int p = 0; p < 8; ++p)
#pragma unroll
    for (int k = 0; k < 7; ++k) { float lo = fminf(v[k], v[k + 1]), hi = fmaxf(v[k], v[k + 1]); v[k] = lo; v[k + 1] = hi; }
#else
#pragma unroll 1
  for (int p = 1; p < 8; ++p) {
    float one = v[p];
    int k = p;
#pragma unroll 1
    while (k > 0 && v[k - 1] > one) { v[k] = v[k - 1]; --k; }
    v[k] = one;
  }
#endif
  y[i] = LITERAL(0.4) * v[3] + LITERAL(0.6) * v[4] + LITERAL(1e-3) * v[0] * v[7];
}
extern "C" int run(void** a, const int* n, cudaStream_t s) {
  take_middle<<<(n[0] + 255) / 256, 256, 0, s>>>((const float*)a[0], (float*)a[1], n[0]);
  return cudaGetLastError();
}
