// Kernels whose inside is known: phases between barriers of the whole grid, or blocks of known work.
//
// Each line of standard input is one launch: "phases KIND AMOUNT KIND AMOUNT ..." or
// "tail BLOCKS WORK EVERY FACTOR" (every EVERY-th block works FACTOR times as long). For each launch
// one line is printed: nanoseconds from its beginning to the end of each phase, or to the end of the
// work of each SM.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#define REQUIRE(call)                                                    \
    do {                                                                 \
        cudaError_t status = (call);                                     \
        if (status != cudaSuccess) {                                     \
            std::fprintf(stderr, "%s\n", cudaGetErrorString(status));    \
            std::exit(1);                                                \
        }                                                                \
    } while (0)

constexpr int kThreads = 512, kMostPhases = 8, kMostSms = 512;
constexpr size_t kBytes = size_t{1} << 31;

enum Kind { kRead, kWrite, kArithmetic, kCache, kSleep };

struct Plan {
    int count = 0;
    int kinds[kMostPhases] = {};
    int amounts[kMostPhases] = {};
};

__device__ unsigned arrived;
__device__ unsigned long long stamps[kMostPhases + 1], sm_ends[kMostSms];

__device__ unsigned long long read_timer() {
    unsigned long long now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    return now;
}

// All blocks are resident: as many as there are SMs.
__device__ void wait_for_all_blocks(unsigned round) {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(&arrived, 1u);
        while (atomicAdd(&arrived, 0u) < round * gridDim.x) __nanosleep(200);
        __threadfence();
    }
    __syncthreads();
}

__device__ void work(int kind, int amount, float4* memory, size_t count, float* sink) {
    const size_t own = size_t{blockIdx.x} * blockDim.x + threadIdx.x;
    const size_t stride = size_t{gridDim.x} * blockDim.x;
    float sum = float(threadIdx.x);
    if (kind == kRead || kind == kWrite || kind == kCache) {
        const size_t all = kind == kCache ? size_t{1} << 16 : count;
        for (int i = 0; i < amount; ++i) {
            float4* place = memory + (own + i * stride) % all;
            if (kind == kWrite) {
                __stcs(place, make_float4(sum, sum, sum, sum));
            } else {
                const float4 v = kind == kCache ? __ldcg(place) : __ldcs(place);
                sum += v.x + v.w;
            }
        }
    } else if (kind == kArithmetic) {
        float other = sum * 0.5f;
        for (int i = 0; i < amount; ++i) {
            sum = fmaf(sum, 0.999f, other);
            other = fmaf(other, 0.998f, sum);
        }
    } else {
        for (int i = 0; i < amount; ++i) __nanosleep(1000);
    }
    if (sum == -1.0f) *sink = sum;
}

__global__ void __launch_bounds__(kThreads) planted_phases(Plan plan, float4* memory, size_t count, float* sink) {
    const bool is_first = blockIdx.x == 0 && threadIdx.x == 0;
    if (is_first) stamps[0] = read_timer();
    for (int p = 0; p < plan.count; ++p) {
        work(plan.kinds[p], plan.amounts[p], memory, count, sink);
        wait_for_all_blocks(unsigned(p + 1));
        if (is_first) stamps[p + 1] = read_timer();
    }
}

__global__ void __launch_bounds__(kThreads) planted_tail(int amount, int every, int factor, float* sink) {
    if (blockIdx.x == 0 && threadIdx.x == 0) stamps[0] = read_timer();
    const int times = blockIdx.x % every == every - 1 ? factor : 1;
    for (int i = 0; i < times; ++i) work(kArithmetic, amount, nullptr, 0, sink);
    __syncthreads();
    if (threadIdx.x == 0) {
        unsigned sm;
        asm volatile("mov.u32 %0, %smid;" : "=r"(sm));
        atomicMax(&sm_ends[sm], read_timer());
    }
}

static int find_kind(const std::string& name) {
    const char* names[] = {"read", "write", "arithmetic", "cache", "sleep"};
    for (int i = 0; i < 5; ++i)
        if (name == names[i]) return i;
    std::exit(2);
}

int main() {
    cudaDeviceProp gpu{};
    REQUIRE(cudaGetDeviceProperties(&gpu, 0));
    const int sms = gpu.multiProcessorCount;
    float4* memory = nullptr;
    float* sink = nullptr;
    REQUIRE(cudaMalloc(&memory, kBytes));
    REQUIRE(cudaMalloc(&sink, sizeof(float)));
    REQUIRE(cudaMemset(memory, 0, kBytes));
    char line[1024];
    while (std::fgets(line, sizeof line, stdin)) {
        std::istringstream words(line);
        std::string what, kind;
        words >> what;
        const unsigned zero = 0;
        std::vector<unsigned long long> times(kMostSms, 0);
        REQUIRE(cudaMemcpyToSymbol(arrived, &zero, sizeof zero));
        REQUIRE(cudaMemcpyToSymbol(sm_ends, times.data(), sizeof(unsigned long long) * kMostSms));
        unsigned long long begin = 0;
        if (what == "phases") {
            Plan plan;
            for (int amount; words >> kind >> amount && plan.count < kMostPhases; ++plan.count) {
                plan.kinds[plan.count] = find_kind(kind);
                plan.amounts[plan.count] = amount;
            }
            planted_phases<<<sms, kThreads>>>(plan, memory, kBytes / sizeof(float4), sink);
            REQUIRE(cudaDeviceSynchronize());
            times.resize(plan.count + 1);
            REQUIRE(cudaMemcpyFromSymbol(times.data(), stamps, sizeof(unsigned long long) * times.size()));
            begin = times.front();
            times.erase(times.begin());
        } else {
            int blocks, amount, every, factor;
            words >> blocks >> amount >> every >> factor;
            planted_tail<<<blocks, kThreads>>>(amount, every, factor, sink);
            REQUIRE(cudaDeviceSynchronize());
            REQUIRE(cudaMemcpyFromSymbol(&begin, stamps, sizeof begin));
            REQUIRE(cudaMemcpyFromSymbol(times.data(), sm_ends, sizeof(unsigned long long) * kMostSms));
            times.erase(std::remove(times.begin(), times.end(), 0ull), times.end());
            std::sort(times.begin(), times.end());
        }
        for (unsigned long long time : times) std::printf("%llu ", time - begin);
        std::printf("\n");
        std::fflush(stdout);
    }
    return 0;
}
