// walk: {"buffers": {"x": "f32 33554432", "y": "f32 33554432", "out": "f32 32"}, "sizes": [33554432]}
// toggles: {"FIX_A": ["warp-shuffle", "warp-aggregate-atomics", "block-privatize", "two-pass-reduction", "thread-coarsening"], "FIX_B": ["block-128-256", "round-block-to-warp"], "FIX_C": ["vectorize-128b"], "FIX_D": ["unroll-ilp", "multiple-accumulators"], "FIX_E": ["streaming-cache-hints", "l1-cache-readonly"]}
#ifdef FIX_B
#define BLOCK 256
#else
#define BLOCK 32
#endif
__global__ void add_errors(const float* x, const float* y, float* out, int n) {
  int first = blockIdx.x * BLOCK + threadIdx.x, step = gridDim.x * BLOCK;
  float total = 0.0f;
#ifdef FIX_C
  for (int i = first; i < n / 4; i += step) {
    float4 p = reinterpret_cast<const float4*>(x)[i], q = reinterpret_cast<const float4*>(y)[i];
    total += fabsf(p.x - q.x) + fabsf(p.y - q.y) + fabsf(p.z - q.z) + fabsf(p.w - q.w);
  }
#else
#ifdef FIX_D
#pragma unroll 4
#else
#pragma unroll 1
#endif
  for (int i = first; i < n; i += step) {
#ifdef FIX_E
    float one = fabsf(__ldcs(x + i) - __ldcs(y + i));
#else
    float one = fabsf(x[i] - y[i]);
#endif
#ifdef FIX_A
    total += one;
#else
    atomicAdd(out + (threadIdx.x & 31), one);
#endif
  }
#endif
#ifdef FIX_A
  for (int d = 16; d; d /= 2) total += __shfl_down_sync(0xffffffffu, total, d);
  if ((threadIdx.x & 31) == 0) atomicAdd(out, total);
#elif defined(FIX_C)
  atomicAdd(out + (threadIdx.x & 31), total);
#endif
}
extern "C" int run(void** a, const int* n, cudaStream_t s) {
  add_errors<<<132 * 16, BLOCK, 0, s>>>((const float*)a[0], (const float*)a[1], (float*)a[2], n[0]);
  return cudaGetLastError();
}
