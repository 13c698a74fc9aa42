// Two kernels, one of them with two shapes and twice with the same one.
// nvcc -O3 -arch=sm_90 kernels.cu -o kernels
template <int PAD>
__global__ void transpose(const float* in, float* out, int n) {
    __shared__ float tile[32][32 + PAD];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8) tile[threadIdx.y + j][threadIdx.x] = in[(long)(y + j) * n + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8) out[(long)(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j];
}
__global__ void few_blocks(float* out, long n) {
    for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        out[i] = out[i] * 2 + 1;
}
int main() {
    float *a, *b;
    cudaMalloc(&a, 4096L * 4096 * 4);
    cudaMalloc(&b, 4096L * 4096 * 4);
    transpose<0><<<dim3(128, 128), dim3(32, 8)>>>(a, b, 4096);
    transpose<0><<<dim3(128, 128), dim3(32, 8)>>>(a, b, 4096);
    transpose<0><<<dim3(64, 64), dim3(32, 8)>>>(a, b, 2048);
    few_blocks<<<16, 256>>>(a, 1L << 24);
    return cudaDeviceSynchronize();
}
