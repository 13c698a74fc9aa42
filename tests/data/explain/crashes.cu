// Kernels that crash; the faulty lines end with "faults".
#include <cassert>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <cuda_runtime.h>

__global__ void past_the_end(float *out, int rows) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row <= rows) out[(size_t)row * 65536] = row;  // faults
}
__global__ void just_past(float *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i <= n) out[i] = i;  // faults
}
__global__ void misaligned(float *out) {
  float4 *p = (float4 *)(out + 1);
  p[threadIdx.x] = make_float4(1, 2, 3, 4);  // faults
}
__global__ void shared_past(float *out, int n) {
  extern __shared__ float tile[];
  tile[threadIdx.x * n] = 1;  // faults
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x];
}
__global__ void null_pointer(float *out) { out[threadIdx.x] = 1; }  // faults
__global__ void asserts(const int *index, float *out) {
  assert(index[threadIdx.x] < 16);  // faults
  out[threadIdx.x] = index[threadIdx.x];
}
__device__ __noinline__ int recurse(int n, float *out) {  // faults
  volatile float local[256];
  local[n & 255] = out[n & 7];
  if (n == 0) return 0;
  return recurse(n - 1, out) + (int)local[n & 255];  // faults
}
__global__ void stack_overflow(float *out, int n) { out[threadIdx.x] = recurse(n, out); }
__global__ void traps(float *out) {
  if (threadIdx.x == 37) __trap();  // faults
  out[threadIdx.x] = 1;
}
__global__ void host_pointer(const float *in, float *out) {
  out[threadIdx.x] = in[threadIdx.x];  // faults
}
__global__ void shared_misaligned(float *out) {
  __shared__ alignas(16) float tile[256];
  tile[threadIdx.x] = 1;
  __syncthreads();
  float2 v = *(float2 *)&tile[threadIdx.x + 1];  // faults
  out[threadIdx.x] = v.x + v.y;
}
__global__ void freed(float *out) { out[threadIdx.x] = 1; }  // faults
__global__ void scattered(const int *index, float *out) {
  out[index[threadIdx.x]] = 1;  // faults
}
__global__ void __launch_bounds__(1024) needs_many(float *out) { out[threadIdx.x] = 1; }

int main(int argc, char **argv) {
  const char *name = argv[1];
  float *in, *out;
  int *index;
  cudaMalloc(&in, 1 << 20);
  cudaMalloc(&out, 64 << 20);
  cudaMalloc(&index, 4096);
  int values[256];
  for (int i = 0; i < 256; i++) values[i] = i == 77 ? 1 << 30 : i % 16;
  cudaMemcpy(index, values, sizeof values, cudaMemcpyDefault);
#define IS(x) (strcmp(name, #x) == 0)
  if (IS(past_the_end)) past_the_end<<<9, 32>>>(out, 256);
  if (IS(just_past)) just_past<<<65537, 256>>>(out, 16 << 20);
  if (IS(misaligned)) misaligned<<<2, 64>>>(out);
  if (IS(shared_past)) shared_past<<<2, 64, 1024>>>(out, 4096);
  if (IS(null_pointer)) null_pointer<<<2, 64>>>(nullptr);
  if (IS(asserts)) asserts<<<1, 256>>>(index, out);
  if (IS(stack_overflow)) stack_overflow<<<1, 64>>>(out, 100000);
  if (IS(traps)) traps<<<2, 64>>>(out);
  float *host = new float[1024];
  if (IS(host_pointer)) host_pointer<<<1, 64>>>(host, out);
  if (IS(shared_misaligned)) shared_misaligned<<<1, 128>>>(out);
  if (IS(freed)) { cudaFree(out); freed<<<1, 64>>>(out); }
  if (IS(scattered)) scattered<<<1, 256>>>(index, out);
  if (IS(needs_many)) needs_many<<<1, 1024, 300000>>>(out);
  cudaError_t e = cudaGetLastError();
  printf("launched %s\n", cudaGetErrorString(e));
  fflush(stdout);
  e = cudaDeviceSynchronize();
  printf("ended: %s\n", cudaGetErrorString(e));
  cudaMemset(in, 0, 4);
  return e != cudaSuccess;
}
