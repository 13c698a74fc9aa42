// walk: {"buffers": {"x": "f32 2097152*16", "at": "i32 2097152*4", "y": "f32 2097152*16"}, "sizes": [2097152, 16, 4]}
// toggles: {"FIX_A": ["remap-threads-coalesced", "warp-cooperative-gather"], "FIX_B": ["strength-reduction", "hoist-address-math", "template-constants", "int32-indexing"], "FIX_C": ["unroll-ilp", "prefetch-indices", "load-early-use-late", "multiple-accumulators"], "FIX_D": ["l1-cache-readonly"], "FIX_E": ["fast-math"]}
__global__ void mean_of(const float* x, const int* at, float* y, long long n, long long width, long long count) {
#ifdef FIX_A
  long long i = (long long)blockIdx.x * 256 + threadIdx.x;
#ifdef FIX_B
  int item = (unsigned)i >> 4, part = i & 15;
#else
  long long item = i / width, part = i % width;
#endif
  if (item >= n) return;
  float total = 0.0f;
#ifdef FIX_C
#pragma unroll
  for (int k = 0; k < 4; ++k) {
#else
#pragma unroll 1
  for (int k = 0; k < count; ++k) {
#endif
#ifdef FIX_D
    total += __ldg(x + (size_t)__ldg(at + item * 4 + k) * 16 + part);
#else
    total += x[(size_t)at[item * 4 + k] * 16 + part];
#endif
  }
#ifdef FIX_E
  y[(size_t)item * 16 + part] = __fdividef(total, (float)count);
#else
  y[(size_t)item * 16 + part] = total / (float)count;
#endif
#else
  long long item = (long long)blockIdx.x * 256 + threadIdx.x;
  if (item >= n) return;
  for (int part = 0; part < width; ++part) {
    float total = 0.0f;
#ifdef FIX_C
#pragma unroll
    for (int k = 0; k < 4; ++k) {
#else
#pragma unroll 1
    for (int k = 0; k < count; ++k) {
#endif
#ifdef FIX_D
      total += __ldg(x + (size_t)__ldg(at + item * 4 + k) * 16 + part);
#else
      total += x[(size_t)at[item * 4 + k] * 16 + part];
#endif
    }
#ifdef FIX_E
    y[(size_t)item * width + part] = __fdividef(total, (float)count);
#else
    y[(size_t)item * width + part] = total / (float)count;
#endif
  }
#endif
}
extern "C" int run(void** a, const int* n, cudaStream_t s) {
#ifdef FIX_A
  int grid = (int)(((long long)n[0] * n[1] + 255) / 256);
#else
  int grid = (n[0] + 255) / 256;
#endif
  mean_of<<<grid, 256, 0, s>>>((const float*)a[0], (const int*)a[1], (float*)a[2], n[0], n[1], n[2]);
  return cudaGetLastError();
}
