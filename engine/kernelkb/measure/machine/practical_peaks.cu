// Measures what this GPU reaches in practice, and prints it as one JSON object.
//
//   practical_peaks            times: bandwidths, latencies, rates of atomics, empty kernel
//   practical_peaks counters   launches the three kernels whose counters the caller reads, once each
//
// A time is the shortest of several: what the GPU can do, not what it did on average.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include <cuda_runtime.h>

#define REQUIRE(call)                                                                     \
    do {                                                                                  \
        cudaError_t status = (call);                                                      \
        if (status != cudaSuccess) {                                                      \
            std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(status));          \
            std::exit(1);                                                                 \
        }                                                                                 \
    } while (0)

namespace {

constexpr int kThreads = 512;
constexpr int kNarrowThreads = 256;
constexpr int kRepeats = 7;
constexpr int kLineBytes = 128;
constexpr int kChaseSteps = 20000;
constexpr int kAtomicsPerThread = 64;
constexpr size_t kMinStreamBytes = size_t{512} << 20;
constexpr unsigned kSpreadWords = 1u << 21;

__device__ unsigned stop_streaming;

}  // namespace

__global__ void peaks_empty() {}

__global__ void peaks_copy(const float4* __restrict__ from, float4* __restrict__ to, size_t count) {
    const size_t stride = size_t{gridDim.x} * blockDim.x;
    for (size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride)
        __stcs(to + i, __ldcs(from + i));
}

// Every block reads the same buffer, each from another start; L1 is passed by.
__global__ void peaks_read_l2(const float4* __restrict__ from, float* sink, unsigned count, int rounds) {
    float sum = 0.0f;
    const unsigned step = 4 * blockDim.x, last = count - step;
    unsigned at = blockIdx.x * 7919u * blockDim.x % last;
    for (int round = 0; round < rounds; ++round) {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const float4 v = __ldcg(from + at + threadIdx.x + k * kThreads);
            sum += v.x + v.y + v.z + v.w;
        }
        at = at + step < last ? at + step : 0;
    }
    if (sum == -1.0f) *sink = sum;
}

// For each Loads reads a thread makes Stores writes, each of another part of a buffer; a block has
// Unroll neighbouring tiles, and goes on to others where the grid is smaller than the buffer.
template <int Loads, int Stores, int Unroll, int Threads>
__global__ void peaks_mix(const float4* __restrict__ from, float4* __restrict__ to, size_t count) {
    constexpr size_t tile = size_t{Threads} * Unroll;
    for (size_t at = blockIdx.x * tile + threadIdx.x; at < count; at += gridDim.x * tile) {
        float4 sums[Unroll];
#pragma unroll
        for (int step = 0; step < Unroll; ++step) {
            const size_t i = at + step * Threads;
            sums[step] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
            for (int k = 0; k < Loads; ++k) {
                if (i >= count) break;
                const float4 v = __ldcs(from + k * count + i);
                sums[step].x += v.x, sums[step].y += v.y, sums[step].z += v.z, sums[step].w += v.w;
            }
        }
#pragma unroll
        for (int step = 0; step < Unroll; ++step) {
            const size_t i = at + step * Threads;
            if (i >= count) break;
            const float4 sum = sums[step];
#pragma unroll
            for (int k = 0; k < Stores; ++k) __stcs(to + k * count + i, sum);
            if (Stores == 0 && sum.x + sum.y + sum.z + sum.w == -1.0f) *to = sum;
        }
    }
}

// A lane copies elements of T, Unroll of them at a time: narrow ones need more instructions for the
// same bytes, and more of them in flight.
template <typename T, int Unroll>
__global__ void peaks_copy_narrow(const T* __restrict__ from, T* __restrict__ to, size_t count) {
    const size_t first = size_t{blockIdx.x} * kNarrowThreads * Unroll + threadIdx.x;
    T held[Unroll];
#pragma unroll
    for (int k = 0; k < Unroll; ++k)
        if (first + k * kNarrowThreads < count) held[k] = from[first + k * kNarrowThreads];
#pragma unroll
    for (int k = 0; k < Unroll; ++k)
        if (first + k * kNarrowThreads < count) to[first + k * kNarrowThreads] = held[k];
}

// The grid goes through arrays that stay in L2, again and again, and a block has another part each time:
// Loads arrays are read and Stores arrays, behind them in the buffer, are written. L1 is passed by.
template <int Loads, int Stores>
__global__ void peaks_mix_l2(float4* buffer, unsigned count, int rounds) {
    const unsigned stride = gridDim.x * blockDim.x;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (int round = 0; round < rounds; ++round) {
        const unsigned block = (blockIdx.x + unsigned(round) * 61u) % gridDim.x;
#pragma unroll 4
        for (unsigned i = block * blockDim.x + threadIdx.x; i < count; i += stride) {
#pragma unroll
            for (int k = 0; k < Loads; ++k) {
                const float4 v = __ldcg(buffer + size_t{count} * k + i);
                sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
            }
#pragma unroll
            for (int k = Loads; k < Loads + Stores; ++k) __stcg(buffer + size_t{count} * k + i, sum);
        }
    }
    if (sum.x + sum.y + sum.z + sum.w == -1.0f) *buffer = sum;
}

// Lanes lanes together read a piece of Lanes words of T at a random place, several pieces at a time.
template <typename T, int Lanes>
__global__ void peaks_random(const T* __restrict__ from, float* sink, unsigned pieces, int rounds) {
    const unsigned group = (blockIdx.x * blockDim.x + threadIdx.x) / Lanes;
    const unsigned lane = threadIdx.x % Lanes;
    unsigned at = group * 2654435761u;
    unsigned sum = 0;
    for (int round = 0; round < rounds; ++round) {
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            at = at * 1664525u + 1013904223u;
            const T v = __ldcg(from + size_t{__umulhi(at, pieces)} * Lanes + lane);
            sum += *reinterpret_cast<const unsigned*>(&v);
        }
    }
    if (sum == 0xffffffffu) *sink = 1.0f;
}

// Additions of integers to the block's own words: 1 is one address. What is added varies by lane, or
// the compiler counts the lanes of one address itself.
__global__ void peaks_shared_atomics(unsigned* sink, unsigned mask, int steps) {
    __shared__ unsigned words[1024];
    for (unsigned i = threadIdx.x; i < 1024; i += blockDim.x) words[i] = 0;
    __syncthreads();
    const unsigned base = unsigned(__cvta_generic_to_shared(words)), bytes = mask * 4;
    unsigned at = (blockIdx.x * blockDim.x + threadIdx.x) * 2654435761u;
    at = (at ^ at >> 15) * 0x846ca68bu;  // else the lanes' words are evenly spread, and conflict less
    at ^= at >> 16;
#pragma unroll 8
    for (int i = 0; i < steps; ++i) {
        at = at * 1664525u + 1013904223u;
        asm volatile("red.shared.add.u32 [%0], %1;" ::"r"(base + (at >> 16 & bytes)), "r"(at) : "memory");
    }
    __syncthreads();
    if (words[threadIdx.x % 1024] == 0xffffffffu) *sink = 1;
}

// Chains of multiply-adds that do not wait for each other, as many as hide the pipe's latency.
template <typename T>
__global__ void peaks_multiply_add(T* sink, T factor, int steps) {
    constexpr int kChains = 8;
    T live[kChains];
#pragma unroll
    for (int k = 0; k < kChains; ++k) live[k] = T(threadIdx.x + k);
    for (int i = 0; i < steps; ++i) {
#pragma unroll
        for (int k = 0; k < kChains; ++k) live[k] = live[k] * factor + T(3);
    }
    T sum = T(0);
#pragma unroll
    for (int k = 0; k < kChains; ++k) sum += live[k];
    if (sum == T(1234567)) *sink = sum;
}

__global__ void peaks_special(float* sink, int steps) {
    constexpr int kChains = 8;
    float live[kChains];
#pragma unroll
    for (int k = 0; k < kChains; ++k) live[k] = 0.001f * float(threadIdx.x + k);
    for (int i = 0; i < steps; ++i) {
#pragma unroll
        for (int k = 0; k < kChains; ++k) asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(live[k]));
    }
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < kChains; ++k) sum += live[k];
    if (sum == -1.0f) *sink = sum;
}

__global__ void peaks_read_shared(float* sink, int steps) {
    __shared__ float4 words[1024];
    for (unsigned i = threadIdx.x; i < 1024; i += blockDim.x)
        words[i] = make_float4(1.0f, 2.0f, 3.0f, 4.0f);
    __syncthreads();
    const unsigned own = unsigned(__cvta_generic_to_shared(words + threadIdx.x));
    float sums[4] = {};
#pragma unroll 1
    for (int i = 0; i < steps; ++i) {
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            float4 v;  // of a volatile load, which stays in the loop; a warp's lie next to each other
            asm volatile("ld.volatile.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                         : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                         : "r"(own + k % 2 * kThreads * 16));
            sums[k % 4] += v.x;
        }
    }
    if (sums[0] + sums[1] + sums[2] + sums[3] == -1.0f) *sink = sums[0];
}

// Each lane reads sectors of 32 bytes at random places of a buffer, several at a time.
__global__ void peaks_gather(const float* __restrict__ from, float* sink, unsigned sectors, int rounds) {
    unsigned at = (blockIdx.x * blockDim.x + threadIdx.x) * 2654435761u;
    float sum = 0.0f;
    for (int round = 0; round < rounds; ++round) {
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            at = at * 1664525u + 1013904223u;
            sum += __ldcg(from + size_t{__umulhi(at, sectors)} * 8);
        }
    }
    if (sum == -1.0f) *sink = sum;
}

// One lane follows a chain through a buffer; the other blocks stream through another one.
__global__ void peaks_chase(const uint32_t* __restrict__ next, int steps, uint32_t* end,
                            const float4* __restrict__ stream, size_t count) {
    if (blockIdx.x == 0) {
        if (threadIdx.x == 0) {
            uint32_t at = *end;
            for (int i = 0; i < steps; ++i) at = __ldcg(next + at);
            *end = at;
            __threadfence();
            atomicExch(&stop_streaming, 1u);
        }
        return;
    }
    float sum = 0.0f;
    const size_t stride = size_t{gridDim.x - 1} * blockDim.x;
    for (size_t pass = 0; pass < 4096; ++pass) {
        size_t i = size_t{blockIdx.x - 1} * blockDim.x + threadIdx.x + pass * 64 * stride;
        for (int k = 0; k < 64; ++k, i += stride) {
            const float4 v = __ldcs(stream + i % count);
            sum += v.x + v.y + v.z + v.w;
        }
        if (*const_cast<volatile unsigned*>(&stop_streaming)) break;
    }
    if (sum == -1.0f) *end = 0;
}

// Float additions: the compiler combines those of integers over a warp. The mask gives how many
// words are used: 1 is one address, 8 are one sector, and many are spread by a hash.
__global__ void peaks_atomics(float* words, unsigned mask) {
    unsigned at = (blockIdx.x * blockDim.x + threadIdx.x) * 2654435761u;
    for (int i = 0; i < kAtomicsPerThread; ++i) {
        atomicAdd(words + ((at >> 8) & mask), 1.0f);
        at = at * 1664525u + 1013904223u;
    }
}

__global__ void peaks_cas_16(unsigned short* words, unsigned mask) {
    unsigned at = (blockIdx.x * blockDim.x + threadIdx.x) * 2654435761u;
    unsigned short seen = 0;
    for (int i = 0; i < kAtomicsPerThread; ++i) {
        seen = atomicCAS(words + ((at >> 8) & mask), seen, static_cast<unsigned short>(seen + 1));
        at = at * 1664525u + 1013904223u;
    }
}

namespace {

template <typename Launch>
double shortest_us(Launch launch) {
    cudaEvent_t start, end;
    REQUIRE(cudaEventCreate(&start));
    REQUIRE(cudaEventCreate(&end));
    double best = 1e30;
    for (int i = 0; i <= kRepeats; ++i) {
        REQUIRE(cudaEventRecord(start));
        launch();
        REQUIRE(cudaEventRecord(end));
        REQUIRE(cudaEventSynchronize(end));
        float ms = 0.0f;
        REQUIRE(cudaEventElapsedTime(&ms, start, end));
        if (i > 0) best = std::min(best, double{ms} * 1e3);  // the first one warms up
    }
    REQUIRE(cudaGetLastError());
    REQUIRE(cudaEventDestroy(start));
    REQUIRE(cudaEventDestroy(end));
    return best;
}

struct Buffers {
    float4* first = nullptr;
    float4* second = nullptr;
    float* words = nullptr;
    size_t stream_count = 0;
    unsigned l2_count = 0;
    int sm_count = 0;
    size_t l2_bytes = 0;
};

Buffers allocate() {
    cudaDeviceProp gpu{};
    REQUIRE(cudaGetDeviceProperties(&gpu, 0));
    Buffers b;
    b.sm_count = gpu.multiProcessorCount;
    b.l2_bytes = gpu.l2CacheSize > 0 ? size_t(gpu.l2CacheSize) : size_t{4} << 20;
    const size_t stream_bytes =
        std::min(std::max(kMinStreamBytes, 8 * b.l2_bytes), size_t(gpu.totalGlobalMem / 4));
    b.stream_count = stream_bytes / sizeof(float4);
    b.l2_count = unsigned(b.l2_bytes / 4 / sizeof(float4));
    REQUIRE(cudaMalloc(&b.first, stream_bytes));
    REQUIRE(cudaMalloc(&b.second, stream_bytes));
    REQUIRE(cudaMalloc(&b.words, kSpreadWords * sizeof(float)));
    REQUIRE(cudaMemset(b.first, 0, stream_bytes));
    REQUIRE(cudaMemset(b.second, 0, stream_bytes));
    REQUIRE(cudaMemset(b.words, 0, kSpreadWords * sizeof(float)));
    return b;
}

void launch_copy(const Buffers& b) {
    peaks_copy<<<b.sm_count * 8, kThreads>>>(b.first, b.second, b.stream_count);
}

constexpr int kL2Rounds = 256;

void launch_read_l2(const Buffers& b) {
    peaks_read_l2<<<b.sm_count * 4, kThreads>>>(b.first, b.words, b.l2_count, kL2Rounds);
}

double l2_gbps(const Buffers& b) {
    const double bytes = double(b.sm_count) * 4 * kThreads * kL2Rounds * 4 * sizeof(float4);
    return bytes / shortest_us([&] { launch_read_l2(b); }) / 1e3;
}

// The mean time of one load of a chain that visits the lines of a buffer in random order.
double chase_ns(const Buffers& b, size_t bytes, int streaming_blocks) {
    const uint32_t lines = uint32_t(bytes / kLineBytes);
    const uint32_t words = kLineBytes / sizeof(uint32_t);
    std::vector<uint32_t> order(lines);
    std::iota(order.begin(), order.end(), 0u);
    std::shuffle(order.begin(), order.end(), std::mt19937(1));
    std::vector<uint32_t> next(size_t{lines} * words, 0u);
    for (uint32_t i = 0; i < lines; ++i)
        next[size_t{order[i]} * words] = order[(i + 1) % lines] * words;
    uint32_t* chain = nullptr;
    uint32_t* end = nullptr;
    REQUIRE(cudaMalloc(&chain, next.size() * sizeof(uint32_t)));
    REQUIRE(cudaMalloc(&end, sizeof(uint32_t)));
    REQUIRE(cudaMemcpy(chain, next.data(), next.size() * sizeof(uint32_t), cudaMemcpyHostToDevice));
    REQUIRE(cudaMemset(end, 0, sizeof(uint32_t)));
    const unsigned running = 0;
    double best = 1e30;
    for (int i = 0; i < 4; ++i) {
        REQUIRE(cudaMemcpyToSymbol(stop_streaming, &running, sizeof running));
        cudaEvent_t start, stop;
        REQUIRE(cudaEventCreate(&start));
        REQUIRE(cudaEventCreate(&stop));
        REQUIRE(cudaEventRecord(start));
        peaks_chase<<<1 + streaming_blocks, kThreads>>>(chain, kChaseSteps, end, b.second,
                                                        b.stream_count);
        REQUIRE(cudaEventRecord(stop));
        REQUIRE(cudaEventSynchronize(stop));
        float ms = 0.0f;
        REQUIRE(cudaEventElapsedTime(&ms, start, stop));
        REQUIRE(cudaEventDestroy(start));
        REQUIRE(cudaEventDestroy(stop));
        if (i > 0) best = std::min(best, double{ms} * 1e6 / kChaseSteps);
    }
    REQUIRE(cudaFree(chain));
    REQUIRE(cudaFree(end));
    return best;
}

double atomics_per_ns(const Buffers& b, unsigned mask) {
    const int blocks = b.sm_count * 4;
    const double count = double(blocks) * kThreads * kAtomicsPerThread;
    return count / shortest_us([&] { peaks_atomics<<<blocks, kThreads>>>(b.words, mask); }) / 1e3;
}

double cas_rate_random(const Buffers& b) {
    const int blocks = b.sm_count * 4;
    const double count = double(blocks) * kThreads * kAtomicsPerThread;
    auto* words = reinterpret_cast<unsigned short*>(b.words);
    const double us = shortest_us([&] { peaks_cas_16<<<blocks, kThreads>>>(words, kSpreadWords - 1); });
    return count / us / 1e3;
}

// Time between the ends of empty kernels in a queue.
double empty_us() {
    constexpr int kLaunches = 200;
    const double us = shortest_us([] {
        for (int i = 0; i < kLaunches; ++i) peaks_empty<<<1, 32>>>();
    });
    return us / kLaunches;
}

// A grid that fills the SMs and goes on, and grids with a block for each tile.
template <int Loads, int Stores>
void print_mix(const Buffers& b, const char* end) {
    const size_t count = b.stream_count / std::max(Loads, Stores);
    const double bytes = double(count) * (Loads + Stores) * sizeof(float4);
    const auto us = [&](auto kernel, size_t blocks, int threads) {
        return shortest_us([&] { kernel<<<unsigned(blocks), threads>>>(b.first, b.second, count); });
    };
    const auto tiles = [&](size_t tile) { return (count + tile - 1) / tile; };
    const double best = std::min({us(peaks_mix<Loads, Stores, 1, kThreads>, size_t(b.sm_count) * 8, kThreads),
                                  us(peaks_mix<Loads, Stores, 1, 256>, tiles(256), 256),
                                  us(peaks_mix<Loads, Stores, 2, 128>, tiles(256), 128),
                                  us(peaks_mix<Loads, Stores, 4, 256>, tiles(1024), 256)});
    std::printf("[%.6g, %.6g]%s", double(Loads) / (Loads + Stores), bytes / best / 1e3, end);
}

// Bandwidth of device memory by the share of its bytes that are read.
void print_mixes(const Buffers& b) {
    std::printf(" \"mix_gbps\": [");
    print_mix<0, 1>(b, ", ");
    print_mix<1, 4>(b, ", ");
    print_mix<1, 2>(b, ", ");
    print_mix<1, 1>(b, ", ");
    print_mix<2, 1>(b, ", ");
    print_mix<4, 1>(b, ", ");
    print_mix<1, 0>(b, "],");
}

// Bandwidth of gathers, 32 bytes each, by the bytes of the buffer over those of L2.
void print_gathers(const Buffers& b) {
    constexpr int kRounds = 64;
    const int blocks = b.sm_count * 4;
    const double bytes = double(blocks) * kThreads * kRounds * 8 * 32;
    const char* before = " \"gather_gbps\": [";
    for (double share : {0.125, 0.25, 0.5, 1.0, 2.0, 8.0}) {
        const size_t wanted = std::min(size_t(share * double(b.l2_bytes)), b.stream_count * 16);
        const unsigned sectors = unsigned(wanted / 32);
        const double us = shortest_us([&] {
            peaks_gather<<<blocks, kThreads>>>(reinterpret_cast<float*>(b.first), b.words, sectors, kRounds);
        });
        std::printf("%s[%.6g, %.6g]", before, double(wanted) / double(b.l2_bytes), bytes / us / 1e3);
        before = ", ";
    }
    std::printf("],");
}

template <typename T, int Unroll>
double narrow_gbps_unrolled(const Buffers& b) {
    const size_t bytes = b.stream_count * sizeof(float4);
    const auto* from = reinterpret_cast<const T*>(b.first);
    auto* to = reinterpret_cast<T*>(b.second);
    const size_t count = bytes / sizeof(T), tile = size_t{kNarrowThreads} * Unroll;
    const double us = shortest_us([&] {
        peaks_copy_narrow<T, Unroll><<<unsigned((count + tile - 1) / tile), kNarrowThreads>>>(from, to, count);
    });
    return 2.0 * double(bytes) / us / 1e3;
}

template <typename T>
double narrow_gbps(const Buffers& b) {
    return std::max({narrow_gbps_unrolled<T, 4>(b), narrow_gbps_unrolled<T, 8>(b),
                     narrow_gbps_unrolled<T, 16>(b)});
}

void print_narrow(const Buffers& b) {
    std::printf(" \"narrow_gbps\": [[1, %.6g], [2, %.6g], [4, %.6g], [8, %.6g], [16, %.6g]],",
                narrow_gbps<uint8_t>(b), narrow_gbps<uint16_t>(b), narrow_gbps<uint32_t>(b),
                narrow_gbps<uint64_t>(b), narrow_gbps<float4>(b));
}

// The best of three grids and three sizes that stay in L2: of the largest, half of the reads come from its far part.
template <int Loads, int Stores>
void print_l2_mix(const Buffers& b, const char* end) {
    constexpr int kRounds = 128;  // of a shorter launch the start and end would count
    double best = 0.0;
    for (int blocks : {b.sm_count * 2, b.sm_count * 4, b.sm_count * 8}) {
        for (int share : {8, 5, 3}) {
            const unsigned count = unsigned(b.l2_bytes / share / (Loads + Stores) / sizeof(float4));
            const double bytes = double(count) * (Loads + Stores) * kRounds * sizeof(float4);
            const double us = shortest_us(
                [&] { peaks_mix_l2<Loads, Stores><<<blocks, 256>>>(b.first, count, kRounds); });
            best = std::max(best, bytes / us / 1e3);
        }
    }
    if (Stores == 0) best = std::max(best, l2_gbps(b));
    std::printf("[%.6g, %.6g]%s", double(Loads) / (Loads + Stores), best, end);
}

// Bandwidth of L2 by the share of its bytes that are read.
void print_l2_mixes(const Buffers& b) {
    std::printf(" \"l2_mix_gbps\": [");
    print_l2_mix<0, 1>(b, ", ");
    print_l2_mix<1, 2>(b, ", ");
    print_l2_mix<1, 1>(b, ", ");
    print_l2_mix<2, 1>(b, ", ");
    print_l2_mix<3, 1>(b, ", ");
    print_l2_mix<1, 0>(b, "],");
}

constexpr double kRandomShares[] = {0.125, 0.5, 1.0, 2.0, 8.0};

template <typename T, int Lanes>
void print_random(const Buffers& b, const char* end) {
    constexpr int kRounds = 16;
    const int blocks = b.sm_count * 8;
    const double read = double(blocks) * kThreads * kRounds * 8 * sizeof(T);
    const char* before = "";
    for (double share : kRandomShares) {
        const size_t wanted = std::min(size_t(share * double(b.l2_bytes)), b.stream_count * sizeof(float4));
        const unsigned pieces = unsigned(wanted / (sizeof(T) * Lanes));
        const double us = shortest_us([&] {
            peaks_random<T, Lanes><<<blocks, kThreads>>>(reinterpret_cast<const T*>(b.first),
                                                         b.words, pieces, kRounds);
        });
        std::printf("%s[%.6g, %d, %.6g]", before, double(wanted) / double(b.l2_bytes),
                    int(sizeof(T)) * Lanes, read / us / 1e3);
        before = ", ";
    }
    std::printf("%s", end);
}

// Bandwidth of pieces read at random places, by the bytes of the buffer over those of L2 and of a piece.
void print_randoms(const Buffers& b) {
    std::printf(" \"random_gbps\": [");
    print_random<uint32_t, 1>(b, ", ");
    print_random<uint2, 1>(b, ", ");
    print_random<uint4, 1>(b, ", ");
    print_random<uint4, 2>(b, ", ");
    print_random<uint4, 4>(b, ", ");
    print_random<uint4, 8>(b, ", ");
    print_random<uint4, 32>(b, ", ");
    print_random<uint4, 128>(b, "],");
}

void print_atomics(const Buffers& b) {
    const char* before = " \"atomic_rates\": [";
    for (unsigned words : {1u, 8u, 32u, 1024u, 32768u, 1u << 20}) {
        std::printf("%s[%u, %.6g]", before, words, atomics_per_ns(b, words - 1));
        before = ", ";
    }
    constexpr int kSteps = 2048;
    before = "], \"shared_atomic_rates\": [";
    for (unsigned words : {1u, 32u, 1024u}) {
        const int blocks = b.sm_count * 4;
        const double us = shortest_us([&] {
            peaks_shared_atomics<<<blocks, kThreads>>>(reinterpret_cast<unsigned*>(b.words),
                                                       words - 1, kSteps);
        });
        std::printf("%s[%u, %.6g]", before, words, double(blocks) * kThreads * kSteps / us / 1e3);
        before = ", ";
    }
    std::printf("],");
}

template <typename T>
double multiply_adds_per_ns(const Buffers& b) {
    constexpr int kSteps = 2048, kChains = 8;
    const int blocks = b.sm_count * 4;
    const double us = shortest_us([&] {
        peaks_multiply_add<T><<<blocks, kThreads>>>(reinterpret_cast<T*>(b.words), T(7), kSteps);
    });
    return double(blocks) * kThreads * kSteps * kChains / us / 1e3;
}

// What the pipes of all SMs do together.
void print_pipes(const Buffers& b) {
    constexpr int kSteps = 1024;
    const int blocks = b.sm_count * 4;
    const double count = double(blocks) * kThreads * kSteps * 8;
    std::printf(" \"fma_rate\": %.6g,", multiply_adds_per_ns<float>(b));
    std::printf(" \"fp64_rate\": %.6g,", multiply_adds_per_ns<double>(b));
    std::printf(" \"integer_rate\": %.6g,", multiply_adds_per_ns<unsigned>(b));
    const double special = shortest_us([&] { peaks_special<<<blocks, kThreads>>>(b.words, kSteps); });
    std::printf(" \"special_rate\": %.6g,", count / special / 1e3);
    const double shared = shortest_us([&] { peaks_read_shared<<<blocks, kThreads>>>(b.words, kSteps); });
    std::printf(" \"shared_gbps\": %.6g,", count * sizeof(float4) / shared / 1e3);
}

void launch_for_counters(const Buffers& b) {
    for (int i = 0; i < 2; ++i) {  // the caller skips the first of each
        peaks_empty<<<1, 32>>>();
        launch_copy(b);
        launch_read_l2(b);
    }
    REQUIRE(cudaDeviceSynchronize());
}

void print_times(const Buffers& b) {
    const double copied = 2.0 * double(b.stream_count) * sizeof(float4);
    std::printf("{\"copy_gbps\": %.6g,", copied / shortest_us([&] { launch_copy(b); }) / 1e3);
    std::printf(" \"l2_read_gbps\": %.6g,", l2_gbps(b));
    std::printf(" \"empty_us\": %.6g,", empty_us());
    print_mixes(b);
    print_gathers(b);
    print_narrow(b);
    print_l2_mixes(b);
    print_randoms(b);
    print_atomics(b);
    print_pipes(b);
    std::printf(" \"l2_latency_ns\": %.6g,", chase_ns(b, b.l2_bytes / 8, 0));
    const size_t far = std::max(size_t{64} << 20, 4 * b.l2_bytes);
    std::printf(" \"dram_latency_ns\": %.6g,", chase_ns(b, far, 0));
    std::printf(" \"dram_loaded_latency_ns\": %.6g,", chase_ns(b, far, b.sm_count * 4 - 1));
    std::printf(" \"atomic_rate_address\": %.6g,", atomics_per_ns(b, 0));
    std::printf(" \"atomic_rate_sector\": %.6g,", atomics_per_ns(b, 7));
    std::printf(" \"atomic_rate_random\": %.6g,", atomics_per_ns(b, kSpreadWords - 1));
    std::printf(" \"cas_rate_random\": %.6g}\n", cas_rate_random(b));
}

}  // namespace

int main(int count, char** arguments) {
    const Buffers buffers = allocate();
    if (count > 1 && std::strcmp(arguments[1], "counters") == 0) {
        launch_for_counters(buffers);
    } else {
        print_times(buffers);
    }
    return 0;
}
