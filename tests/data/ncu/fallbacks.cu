// Kernels whose counters have other names in other versions of ncu: one each for local memory,
// atomics, uneven work, and the pipes.
// nvcc -O3 -lineinfo -arch=sm_90 fallbacks.cu -o fallbacks
#include <cuda_fp16.h>
#include <mma.h>
__global__ void local_array(const int* in, int* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, seen[32] = {};
    for (int j = 0; j < 64; j++) seen[in[(i + j) & 0xfffff] & 31]++;
    int sum = 0;
    for (int j = 0; j < 8; j++) sum += seen[(in[i] + j * j) & 31] * j;
    out[i] = sum;
}
__global__ void atomics(int* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(out + (i & 7), 1);
    if (atomicAdd(out + 64 + (i & 1023), 1) < 0) out[9] = i;
}
__global__ void one_long_block(float* out) {
    float x = threadIdx.x;
    for (int j = 0; j < (blockIdx.x ? 100 : 200000); j++) x = x * 0.5f + 1;
    out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}
__global__ void doubles(double* out) {
    double x = threadIdx.x, y = x;
    for (int j = 0; j < 2000; j++) x = x * 0.5 + 1, y = y * 0.25 + 2;
    out[blockIdx.x * blockDim.x + threadIdx.x] = x + y;
}
__global__ void halves(__half2* out) {
    __half2 x = __float2half2_rn(threadIdx.x * 0.01f), y = x, a = __float2half2_rn(0.5f);
    for (int j = 0; j < 4000; j++) x = __hfma2(x, a, y), y = __hfma2(y, a, x);
    out[blockIdx.x * blockDim.x + threadIdx.x] = __hadd2(x, y);
}
__global__ void integers(int* out) {
    int x = threadIdx.x, y = blockIdx.x;
    for (int j = 0; j < 4000; j++) x = max(x ^ y, j), y = min(y + x, j * 3);
    out[blockIdx.x * blockDim.x + threadIdx.x] = x + y;
}
__global__ void matrices(const __half* in, float* out) {
    using namespace nvcuda::wmma;
    fragment<matrix_a, 16, 16, 16, __half, row_major> a;
    fragment<matrix_b, 16, 16, 16, __half, row_major> b;
    fragment<accumulator, 16, 16, 16, float> c;
    fill_fragment(c, 0.0f);
    for (int j = 0; j < 1000; j++) {
        load_matrix_sync(a, in + (j & 15) * 256, 16);
        load_matrix_sync(b, in + (j & 7) * 256, 16);
        mma_sync(c, a, b, c);
    }
    store_matrix_sync(out + (blockIdx.x * blockDim.x + threadIdx.x) / 32 * 256, c, 16, mem_row_major);
}
__global__ void copy(const float4* in, float4* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[i];
}
int main() {
    void *a, *b;
    cudaMalloc(&a, 1 << 28), cudaMalloc(&b, 1 << 28);
    cudaMemset(a, 1, 1 << 28), cudaMemset(b, 0, 1 << 28);
    local_array<<<4096, 256>>>((int*)a, (int*)b);
    atomics<<<4096, 256>>>((int*)b);
    one_long_block<<<1024, 256>>>((float*)b);
    doubles<<<528, 256>>>((double*)b);
    halves<<<1056, 256>>>((__half2*)b);
    integers<<<1056, 256>>>((int*)b);
    matrices<<<528, 256>>>((__half*)a, (float*)b);
    copy<<<16384, 1024>>>((float4*)a, (float4*)b);
    return cudaDeviceSynchronize();
}
