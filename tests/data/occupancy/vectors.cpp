// Prints random launches with what the CUDA toolkit's own calculator says about them, as CSV.
// g++ -O1 -I$CUDA_HOME/include vectors.cpp -o vectors && ./vectors SEED COUNT > golden_more.csv
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <random>

#include <cuda_occupancy.h>

struct Architecture {
    int major, minor, threads_sm, shared_kib;
};

// Threads and shared memory per SM are device properties; the calculator does not know them.
static const Architecture kArchitectures[] = {
    {7, 0, 2048, 96},   {7, 5, 1024, 64},   {8, 0, 2048, 164},  {8, 6, 1536, 100},  {8, 7, 1536, 164},
    {8, 9, 1536, 100},  {9, 0, 2048, 228},  {10, 0, 2048, 228}, {10, 3, 2048, 228},
    {11, 0, 1536, 228}, {12, 0, 1536, 100}, {12, 1, 1536, 100},
};

int main(int argc, char** argv) {
    std::mt19937 random(argc > 1 ? std::atoi(argv[1]) : 1);
    const int count = argc > 2 ? std::atoi(argv[2]) : 1000;
    auto pick = [&](int low, int high) {
        return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
    };
    std::puts(
        "arch,block,regs,static_smem,dyn_smem,barriers,carveout_pct,blocks_per_sm,lim_warps,"
        "lim_regs,lim_smem,lim_blocks,lim_barriers,factors,alloc_regs_blk,alloc_smem_blk");
    for (int i = 0; i < count; ++i) {
        const Architecture& a = kArchitectures[pick(0, 11)];
        cudaOccDeviceProp device;
        device.computeMajor = a.major;
        device.computeMinor = a.minor;
        device.maxThreadsPerBlock = 1024;
        device.maxThreadsPerMultiprocessor = a.threads_sm;
        device.regsPerBlock = device.regsPerMultiprocessor = 65536;
        device.warpSize = 32;
        device.sharedMemPerBlock = 49152;
        device.sharedMemPerMultiprocessor = a.shared_kib * 1024;
        device.numSms = 1;
        device.reservedSharedMemPerBlock = a.major >= 8 ? 1024 : 0;
        device.sharedMemPerBlockOptin =
            device.sharedMemPerMultiprocessor - device.reservedSharedMemPerBlock;

        const int block = pick(0, 3) ? 32 * pick(1, 32) : pick(1, 1024);
        const int dynamic = pick(0, 2) ? pick(0, 3) * 4096 : pick(0, 250000);
        cudaOccFuncAttributes kernel;
        kernel.maxThreadsPerBlock = INT_MAX;
        kernel.numRegs = pick(0, 2) ? pick(1, 96) : pick(1, 255);
        kernel.sharedSizeBytes = pick(0, 2) ? 0 : pick(0, 49152);
        kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
        kernel.maxDynamicSharedSizeBytes = dynamic;
        kernel.numBlockBarriers = pick(0, 2) ? 0 : pick(1, 16);
        cudaOccDeviceState state;
        state.carveoutConfig = pick(0, 2) ? -1 : pick(0, 100);

        cudaOccResult found;
        if (cudaOccMaxActiveBlocksPerMultiprocessor(&found, &device, &kernel, &state, block,
                                                    dynamic) != CUDA_OCC_SUCCESS) {
            return 1;
        }
        std::printf("%d.%d,%d,%d,%zu,%d,%d,%d,%d,%d,%d,%d,%d,%d,%u,%d,%zu\n", a.major, a.minor,
                    block, kernel.numRegs, kernel.sharedSizeBytes, dynamic,
                    kernel.numBlockBarriers, state.carveoutConfig,
                    found.activeBlocksPerMultiprocessor, found.blockLimitWarps,
                    found.blockLimitRegs, found.blockLimitSharedMem, found.blockLimitBlocks,
                    found.blockLimitBarriers, found.limitingFactors,
                    found.allocatedRegistersPerBlock, found.allocatedSharedMemPerBlock);
    }
    return 0;
}
