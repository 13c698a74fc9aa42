// Kernels with one fault each, and some without any, to see whether the fault is named.
// nvcc -O3 -lineinfo -gencode arch=compute_90a,code=sm_90a kernels.cu -o kernels && ./kernels NAME
#include <cstdio>
#include <cstring>
#include <cuda_fp16.h>
#include <mma.h>

constexpr long N = 1L << 26;

__global__ void strided_copy(const float* in, float* out, long n, long stride) {
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    long at = (i % (n / stride)) * stride + i / (n / stride);
    if (i < n) out[at] = in[at];
}
__global__ void plain_copy(const float4* in, float4* out, long n) {
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i];
}
template <int PAD>
__global__ void transpose(const float* in, float* out, int n) {
    __shared__ float tile[32][32 + PAD];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    float sum = 0;
    for (int r = 0; r < 64; r++) {
        for (int j = 0; j < 32; j += 8) tile[threadIdx.y + j][threadIdx.x] = in[(long)(y + j) * n + x] + r;
        __syncthreads();
        for (int j = 0; j < 32; j += 8) sum += tile[threadIdx.x][threadIdx.y + j];
        __syncthreads();
    }
    out[(long)y * n + x] = sum;
}
__global__ void one_chain(float* out, int steps) {
    float a = threadIdx.x;
    for (int i = 0; i < steps; i++) a = fmaf(a, 1.0001f, 0.5f);
    out[blockIdx.x * blockDim.x + threadIdx.x] = a;
}
__global__ void many_chains(float* out, int steps) {
    float a[8];
#pragma unroll
    for (int k = 0; k < 8; k++) a[k] = threadIdx.x + k;
    for (int i = 0; i < steps; i++)
#pragma unroll
        for (int k = 0; k < 8; k++) a[k] = fmaf(a[k], 1.0001f, 0.5f);
    float s = 0;
    for (int k = 0; k < 8; k++) s += a[k];
    out[blockIdx.x * blockDim.x + threadIdx.x] = s;
}
__global__ void double_literals(const float* in, float* out, long n) {
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    double x = in[i];
    for (int k = 0; k < 64; k++) x = x * 1.0001 + 0.5 * x;
    out[i] = (float)x;
}
__global__ void exponentials(const float* in, float* out, long n) {
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = in[i];
#pragma unroll 16
    for (int k = 0; k < 128; k++) x = __expf(-x) + __sinf(x);
    out[i] = x;
}
__global__ void divisions(const int* in, int* out, long n, int d, int e) {
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    int x = in[i] + (int)i;
    for (int k = 0; k < 32; k++) x = (x / d) * e + x % d + k;
    out[i] = x;
}
__global__ void divergent(const float* in, float* out, long n) {
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = in[i];
    int lane = threadIdx.x % 32;
    for (int k = 0; k < 40; k++) {
        switch (lane % 8) {
            case 0: for (int j = 0; j < 9; j++) x = fmaf(x, 1.1f, 0.1f); break;
            case 1: for (int j = 0; j < 9; j++) x = fmaf(x, 1.2f, 0.2f) * x; break;
            case 2: for (int j = 0; j < 9; j++) x = fmaf(x, 1.3f, 0.3f) - x; break;
            case 3: for (int j = 0; j < 9; j++) x = fmaf(x, x, 0.4f); break;
            case 4: for (int j = 0; j < 9; j++) x = fmaf(x, 1.5f, x); break;
            case 5: for (int j = 0; j < 9; j++) x = fmaf(x, 1.6f, 0.6f) + 1; break;
            case 6: for (int j = 0; j < 9; j++) x = fmaf(x, 1.7f, 0.7f) - 1; break;
            default: for (int j = 0; j < 9; j++) x = fmaf(x, 1.8f, 0.8f) * 2; break;
        }
    }
    out[i] = x;
}
__global__ void hot_histogram(const int* in, int* bins, long n) {
    for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (long)blockDim.x)
        atomicAdd(&bins[in[i] & 3], 1);
}
__global__ void __launch_bounds__(1024, 2) spilling(const float* in, float* out, long n) {
    float v[80];
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i >= n / 128) return;
#pragma unroll
    for (int k = 0; k < 80; k++) v[k] = in[i + (n / 128) * k];
    for (int r = 0; r < 8; r++)
#pragma unroll
        for (int k = 0; k < 80; k++) v[k] = fmaf(v[k], v[(k * 7 + 3) % 80], v[(k + 41) % 80]);
    float s = 0;
#pragma unroll
    for (int k = 0; k < 80; k++) s += v[k];
    out[i] = s;
}
__global__ void indexed_array(const int* in, float* out, long n) {
    float a[32];
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    for (int k = 0; k < 32; k++) a[k] = k + (int)i;
    int at = in[i] & 31;
    for (int k = 0; k < 64; k++) { a[at] += k; at = (at * 5 + k) & 31; }
    out[i] = a[at];
}
__global__ void few_blocks(const float* in, float* out, long n) {
    float s = 0;
    for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (long)blockDim.x) s += in[i];
    atomicAdd(out, s);
}
__global__ void whole_sm(float* out, int steps) {
    extern __shared__ float buffer[];
    float a = threadIdx.x, b = a + 1, c = a + 2, d = a + 3;
    for (int i = 0; i < steps; i++) {
        a = fmaf(a, 1.0001f, 0.5f); b = fmaf(b, 1.0001f, 0.5f); c = fmaf(c, 1.0001f, 0.5f); d = fmaf(d, 1.0001f, 0.5f);
    }
    buffer[threadIdx.x] = a + b + c + d;
    out[blockIdx.x * blockDim.x + threadIdx.x] = buffer[threadIdx.x];
}
__global__ void one_warp_prepares(const float* in, float* out, int rounds) {
    __shared__ float value[32];
    float s = 0;
    for (int r = 0; r < rounds; r++) {
        if (threadIdx.x < 32) {
            float x = in[(blockIdx.x * 32 + threadIdx.x + r) % 4096];
            for (int k = 0; k < 60; k++) x = fmaf(x, 1.001f, 0.1f);
            value[threadIdx.x] = x;
        }
        __syncthreads();
        s += value[threadIdx.x % 32];
        __syncthreads();
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = s;
}
__global__ void chase(const int* next, int* out, int steps) {
    int at = (blockIdx.x * blockDim.x + threadIdx.x) * 16;
    for (int i = 0; i < steps; i++) at = next[at];
    out[blockIdx.x * blockDim.x + threadIdx.x] = at;
}
__global__ void reread_l2(const float4* in, float* out, int words, int rounds) {
    float s = 0;
    int start = (blockIdx.x * 9973) % words;
    for (int r = 0; r < rounds; r++) {
        int at = (start + r * 4096 + threadIdx.x) % words;
        float4 v = __ldcg(&in[at]);
        float4 w = __ldcg(&in[(at + 1024) % words]);
        s += v.x + v.y + v.z + v.w + w.x + w.y + w.z + w.w;
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = s;
}
__global__ void triangular(const float* in, float* out, long n) {
    float s = 0;
    int rounds = blockIdx.x < gridDim.x / 16 ? 2048 : 64;
    for (int r = 0; r < rounds; r++) s = fmaf(s, 1.001f, in[(threadIdx.x + r * 32) % 8192]);
    out[blockIdx.x * (long)blockDim.x + threadIdx.x] = s;
}
__global__ void latency_stream(const float* in, float* out, long n) {
    extern __shared__ float unused[];
    float s = 0;
    for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (long)blockDim.x) s += sqrtf(in[i]);
    if (s == -1) unused[threadIdx.x] = s;
    out[blockIdx.x * (long)blockDim.x + threadIdx.x] = s;
}
__global__ void byte_stores(const unsigned char* in, unsigned char* out, long n) {
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i < n / 8) out[i * 8] = in[i];
}
__global__ void fences(int* flag, float* out, int rounds) {
    float s = threadIdx.x;
    for (int r = 0; r < rounds; r++) {
        out[blockIdx.x * blockDim.x + threadIdx.x] = s;
        __threadfence();
        s += r;
    }
}
__constant__ float table[4096];
__global__ void constant_by_lane(const int* in, float* out, long n) {
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    float s = 0;
    int at = in[i] + threadIdx.x * 37;
    for (int k = 0; k < 16; k++) { s += table[at & 4095]; at = at * 5 + 1; }
    out[i] = s;
}
__global__ void scalar_gemm(const float* a, const float* b, float* c, int n) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    float s = 0;
    for (int k = 0; k < n; k++) s = fmaf(a[(long)y * n + k], b[(long)k * n + x], s);
    c[(long)y * n + x] = s;
}
__global__ void wmma_gemm(const half* a, const half* b, float* c, int n) {
    using namespace nvcuda::wmma;
    int warp = threadIdx.x / 32;
    int row = (blockIdx.y * 2 + warp / 2) * 16, col = (blockIdx.x * 2 + warp % 2) * 16;
    fragment<accumulator, 16, 16, 16, float> acc;
    fill_fragment(acc, 0.0f);
    for (int k = 0; k < n; k += 16) {
        fragment<matrix_a, 16, 16, 16, half, row_major> fa;
        fragment<matrix_b, 16, 16, 16, half, row_major> fb;
        load_matrix_sync(fa, a + (long)row * n + k, n);
        load_matrix_sync(fb, b + (long)k * n + col, n);
        mma_sync(acc, fa, fb, acc);
    }
    store_matrix_sync(c + (long)row * n + col, acc, n, mem_row_major);
}
__global__ void staged_tiles(const float* in, float* out, int tiles) {
    __shared__ float tile[2048];
    float s = 0;
    for (int t = 0; t < tiles; t++) {
        for (int k = threadIdx.x; k < 2048; k += blockDim.x) tile[k] = in[((long)blockIdx.x * tiles + t) * 2048 + k];
        __syncthreads();
        for (int k = 0; k < 32; k++) s = fmaf(s, 1.001f, tile[(threadIdx.x + k * 64) % 2048]);
        __syncthreads();
    }
    out[blockIdx.x * (long)blockDim.x + threadIdx.x] = s;
}
__global__ void huge_code(const float* in, float* out, int rounds) {
    float x = in[threadIdx.x], y = x + 1;
    for (int r = 0; r < rounds; r++) {
#pragma unroll
        for (int k = 0; k < 6000; k++) {
            x = fmaf(x, 1.0f + k * 1e-6f, y);
            y = fmaf(y, 1.0f - k * 1e-6f, k * 0.5f);
        }
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = x + y;
}

#define RUN(NAME, ...) if (!strcmp(argv[1], #NAME)) { __VA_ARGS__; }
int main(int argc, char** argv) {
    float *a, *b;
    cudaMalloc(&a, N * 4); cudaMalloc(&b, N * 4 + 1024);
    cudaMemset(a, 0x3c, N * 4); cudaMemset(b, 0, N * 4);
    int* ia = (int*)a; int* ib = (int*)b;
    if (argc < 2) return 1;
    if (!strcmp(argv[1], "chase")) {
        int* host = (int*)malloc(N * 4);
        for (long i = 0; i < N; i++) host[i] = (int)((i * 16807L + 12345 * 16) % N);
        cudaMemcpy(a, host, N * 4, cudaMemcpyHostToDevice);
        free(host);
    }
    cudaFuncSetAttribute(whole_sm, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 * 1024);
    cudaFuncSetAttribute(latency_stream, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 * 1024);
    RUN(strided_copy, strided_copy<<<N / 256, 256>>>(a, b, N, 4096))
    RUN(plain_copy, plain_copy<<<N / 4 / 256, 256>>>((float4*)a, (float4*)b, N / 4))
    RUN(transpose_conflicts, transpose<0><<<dim3(128, 128), dim3(32, 8)>>>(a, b, 4096))
    RUN(transpose_padded, transpose<1><<<dim3(128, 128), dim3(32, 8)>>>(a, b, 4096))
    RUN(one_chain, one_chain<<<132 * 4, 128>>>(b, 100000))
    RUN(many_chains, many_chains<<<132 * 16, 256>>>(b, 20000))
    RUN(double_literals, double_literals<<<N / 256, 256>>>(a, b, N))
    RUN(exponentials, exponentials<<<N / 4 / 256, 256>>>(a, b, N / 4))
    RUN(divisions, divisions<<<N / 4 / 256, 256>>>(ia, ib, N / 4, argc + 5, argc + 1))
    RUN(divergent, divergent<<<N / 16 / 256, 256>>>(a, b, N / 16))
    RUN(hot_histogram, hot_histogram<<<132 * 8, 256>>>(ia, ib, N))
    RUN(spilling, spilling<<<N / 128 / 1024, 1024>>>(a, b, N))
    RUN(indexed_array, indexed_array<<<N / 4 / 256, 256>>>(ia, b, N / 4))
    RUN(few_blocks, few_blocks<<<16, 256>>>(a, b, N / 4))
    RUN(last_wave, whole_sm<<<133, 1024, 200 * 1024>>>(b, 20000))
    RUN(one_warp_prepares, one_warp_prepares<<<132 * 8, 256>>>(a, b, 400))
    RUN(chase, chase<<<132 * 8, 256>>>(ia, ib, 200))
    RUN(reread_l2, reread_l2<<<132 * 8, 256>>>((float4*)a, b, 1 << 20, 2000))
    RUN(triangular, triangular<<<132 * 64, 128>>>(a, b, N))
    RUN(latency_stream, latency_stream<<<132 * 2, 64, 100 * 1024>>>(a, b, N))
    RUN(byte_stores, byte_stores<<<N / 8 / 256, 256>>>((unsigned char*)a, (unsigned char*)b, N))
    RUN(fences, fences<<<132 * 8, 256>>>(ib, b, 200))
    RUN(constant_by_lane, constant_by_lane<<<N / 16 / 256, 256>>>(ia, b, N / 16))
    RUN(scalar_gemm, scalar_gemm<<<dim3(128, 256), dim3(16, 8)>>>(a, a, b, 2048))
    RUN(wmma_gemm, wmma_gemm<<<dim3(64, 64), 128>>>((half*)a, (half*)a, b, 2048))
    RUN(staged_tiles, staged_tiles<<<132, 64>>>(a, b, 64))
    RUN(huge_code, huge_code<<<132 * 2, 64>>>(a, b, 40))
    cudaError_t e = cudaDeviceSynchronize();
    printf("%s %s\n", argv[1], cudaGetErrorString(e));
    return e != cudaSuccess;
}
