// Prints what the driver says of blocks and clusters on an SM and on the GPU, for many launches.
// nvcc -O1 -arch=native what_if.cu -o what_if && ./what_if
// A line: registers, static bytes, threads, dynamic bytes, blocks of a cluster, and the number of
// blocks on an SM (cluster 0) or of clusters on the GPU; -1 where the driver refuses the launch.
#include <cstdio>

template <int kLive, int kStatic>
__global__ void keep(float* data, int n) {
    __shared__ float held[kStatic / 4 + 1];
    float live[kLive];
#pragma unroll
    for (int i = 0; i < kLive; ++i) live[i] = data[i * n + threadIdx.x];
    held[threadIdx.x % (kStatic / 4 + 1)] = live[0];
    __syncthreads();
    for (int turn = 0; turn < n; ++turn) {
#pragma unroll
        for (int i = 0; i < kLive; ++i) live[i] = live[i] * live[(i + 1) % kLive] + held[turn % 7];
    }
#pragma unroll
    for (int i = 0; i < kLive; ++i) data[i * n + threadIdx.x] = live[i];
}

static void print_clusters(const void* kernel, const cudaFuncAttributes& has, int threads,
                           int dynamic) {
    for (int size = 1; size <= 16; ++size) {
        cudaLaunchAttribute wanted;
        wanted.id = cudaLaunchAttributeClusterDimension;
        wanted.val.clusterDim.x = static_cast<unsigned>(size);
        wanted.val.clusterDim.y = wanted.val.clusterDim.z = 1;
        cudaLaunchConfig_t launch = {};
        launch.gridDim = dim3(static_cast<unsigned>(size) * 4096u);
        launch.blockDim = dim3(static_cast<unsigned>(threads));
        launch.dynamicSmemBytes = static_cast<size_t>(dynamic);
        launch.attrs = &wanted;
        launch.numAttrs = 1;
        int found = -1;
        if (cudaOccupancyMaxActiveClusters(&found, kernel, &launch) != cudaSuccess) found = -1;
        cudaGetLastError();
        std::printf("%d,%zu,%d,%d,%d,%d\n", has.numRegs, has.sharedSizeBytes, threads, dynamic,
                    size, found);
    }
}

template <int kLive, int kStatic>
static void print_kernel(int shared_most) {
    const void* kernel = reinterpret_cast<const void*>(keep<kLive, kStatic>);
    cudaFuncAttributes has;
    cudaFuncGetAttributes(&has, kernel);
    const int room = shared_most - static_cast<int>(has.sharedSizeBytes);
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, room);
    cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    for (int threads = 1; threads <= 1024; threads += threads == 1 ? 31 : 16) {
        for (int dynamic = 0; dynamic <= room; dynamic += 2992) {
            int found = -1;
            cudaOccupancyMaxActiveBlocksPerMultiprocessor(&found, kernel, threads,
                                                          static_cast<size_t>(dynamic));
            std::printf("%d,%zu,%d,%d,0,%d\n", has.numRegs, has.sharedSizeBytes, threads, dynamic,
                        found);
            if (threads % 128 == 0 && dynamic % 14960 == 0)
                print_clusters(kernel, has, threads, dynamic);
        }
    }
}

int main() {
    int most = 0;
    if (cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0) != cudaSuccess)
        return 1;
    print_kernel<2, 64>(most);
    print_kernel<6, 64>(most);
    print_kernel<10, 4096>(most);
    print_kernel<16, 64>(most);
    print_kernel<28, 16384>(most);
    print_kernel<40, 64>(most);
    print_kernel<60, 64>(most);
    print_kernel<90, 1000>(most);
    return 0;
}
