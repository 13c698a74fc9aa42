// walk: {"buffers": {"x": "f32 8388608", "y": "f32 8388608"}, "sizes": [8388608, 128, 64, 32, 32]}
// toggles: {"FIX_A": ["hoist-address-math", "hoist-invariants"], "FIX_B": ["int32-indexing"], "FIX_C": ["strength-reduction"], "FIX_D": ["template-constants"], "FIX_E": ["vectorize-128b", "thread-coarsening"]}
#ifdef FIX_B
typedef int Index;
#else
typedef long long Index;
#endif
__global__ void reorder(const float* x, float* y, Index n, Index d0, Index d1, Index d2, Index d3) {
  Index i = (Index)blockIdx.x * 256 + threadIdx.x;
#ifdef FIX_E
  i *= 4;
#endif
  if (i >= n) return;
#ifdef FIX_A
  const float* from = x;
  float* to = y + i;
#define TO to[e]
#else
  const float* from = x;
#define TO y[i + e]
#endif
#ifdef FIX_E
  for (int e = 0; e < 4; ++e) {
#else
  for (int e = 0; e < 1; ++e) {
#endif
    Index at = i + e;
#ifdef FIX_D
    Index c3 = at % 32, c2 = at / 32 % 32, c1 = at / 1024 % 64, c0 = at / 65536;
    TO = from[((c0 * 32 + c2) * 64 + c1) * 32 + c3] * 2.0f;
#elif defined(FIX_C)
    Index c3 = at & (d3 - 1), c2 = (at >> 5) & (d2 - 1), c1 = (at >> 10) & (d1 - 1), c0 = at >> 16;
    TO = from[((c0 * d2 + c2) * d1 + c1) * d3 + c3] * 2.0f;
#else
    Index c3 = at % d3, c2 = at / d3 % d2, c1 = at / (d3 * d2) % d1, c0 = at / (d3 * d2 * d1);
    TO = from[((c0 * d2 + c2) * d1 + c1) * d3 + c3] * 2.0f;
#endif
  }
}
extern "C" int run(void** a, const int* n, cudaStream_t s) {
#ifdef FIX_E
  int grid = n[0] / 1024;
#else
  int grid = n[0] / 256;
#endif
  reorder<<<grid, 256, 0, s>>>((const float*)a[0], (float*)a[1], n[0], n[1], n[2], n[3], n[4]);
  return cudaGetLastError();
}
