// Kernels of known mix, for benchmarks/ceilings.py: each does one kind of work and nothing else.
// nvcc -O3 -std=c++17 -arch=native ceilings.cu -o ceilings
// ceilings list    the names; ceilings NAME    its mix and its median time, as a line of JSON
// The mix holds the fields of kernelkb.device_math.roofline.Mix.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#define REQUIRE(call)                                                       \
    do {                                                                    \
        cudaError_t status = (call);                                        \
        if (status != cudaSuccess) {                                        \
            std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(status)); \
            std::exit(1);                                                   \
        }                                                                   \
    } while (0)

constexpr int kThreads = 256;
constexpr double kBudgetUs = 300e3, kBatchUs = 4e3;

__device__ __forceinline__ unsigned mix_bits(unsigned x) {
    x ^= x >> 16, x *= 0x7feb352du, x ^= x >> 15, x *= 0x846ca68bu;
    return x ^ (x >> 16);
}

// Loads arrays are read and Stores arrays are written, each of count words of 16 bytes.
template <int Loads, int Stores>
__global__ void stream(const float4* __restrict__ from, float4* __restrict__ to, size_t count) {
    constexpr int kSteps = 4;
    const size_t first = size_t{blockIdx.x} * kThreads * kSteps + threadIdx.x;
    float4 sum[kSteps];
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
        const size_t i = first + step * kThreads;
        sum[step] = make_float4(1.0f, 2.0f, 3.0f, 4.0f);
        if (i < count) {
#pragma unroll
            for (int k = 0; k < Loads; ++k) {
                const float4 v = __ldcs(from + k * count + i);
                sum[step].x += v.x, sum[step].y += v.y, sum[step].z += v.z, sum[step].w += v.w;
            }
        }
    }
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
        const size_t i = first + step * kThreads;
        if (i >= count) continue;
#pragma unroll
        for (int k = 0; k < Stores; ++k) __stcs(to + k * count + i, sum[step]);
        if (Stores == 0 && sum[step].x + sum[step].y + sum[step].z + sum[step].w == -1.0f) *to = sum[step];
    }
}

// The same over arrays that stay in L2, round by round; in each, a block has another part.
template <int Loads, int Stores>
__global__ void stream_cached(const float4* from, float4* to, unsigned count, int rounds) {
    const unsigned stride = gridDim.x * kThreads;
    float4 sum = make_float4(1.0f, 2.0f, 3.0f, 4.0f);
    for (int round = 0; round < rounds; ++round) {
        const unsigned block = (blockIdx.x + round * 37u) % gridDim.x;
#pragma unroll 4
        for (unsigned i = block * kThreads + threadIdx.x; i < count; i += stride) {
#pragma unroll
            for (int k = 0; k < Loads; ++k) {
                const float4 v = __ldcg(from + k * count + i);
                sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
            }
#pragma unroll
            for (int k = 0; k < Stores; ++k) __stcg(to + k * count + i, sum);
        }
    }
    if (sum.x + sum.y + sum.z + sum.w == -1.0f) *to = sum;
}

// Lanes lanes read neighbouring words of T at a random place.
template <typename T, int Lanes>
__global__ void gather(const T* __restrict__ from, unsigned pieces, int steps, float* sink) {
    const unsigned group = (blockIdx.x * kThreads + threadIdx.x) / Lanes;
    unsigned sum = 0;
#pragma unroll 8
    for (int step = 0; step < steps; ++step) {
        const unsigned piece = __umulhi(mix_bits(group * 977u + step * 0x9e3779b9u), pieces);
        const T v = __ldcg(from + size_t{piece} * Lanes + threadIdx.x % Lanes);
        sum ^= *reinterpret_cast<const unsigned*>(&v);
    }
    if (sum == 0x12345u) *sink = 1.0f;
}

__global__ void add_global(float* words, unsigned mask, int steps) {
    const unsigned thread = blockIdx.x * kThreads + threadIdx.x;
    for (int step = 0; step < steps; ++step)
        atomicAdd(words + (mix_bits(thread * 977u + step * 0x9e3779b9u) & mask), 1.0f);
}

// Three instructions find the next of the words; what is added varies, or lanes are counted instead.
__global__ void add_shared(unsigned mask, int steps, unsigned* sink) {
    __shared__ unsigned words[1024];
    for (unsigned i = threadIdx.x; i < 1024; i += kThreads) words[i] = 0;
    __syncthreads();
    const unsigned base = unsigned(__cvta_generic_to_shared(words)), bytes = mask * 4;
    unsigned bits = mix_bits(blockIdx.x * kThreads + threadIdx.x);
#pragma unroll 8
    for (int step = 0; step < steps; ++step) {
        bits = bits * 1664525u + 1013904223u;
        asm volatile("red.shared.add.u32 [%0], %1;" ::"r"(base + (bits >> 16 & bytes)), "r"(bits) : "memory");
    }
    __syncthreads();
    if (words[threadIdx.x] == 0x12345u) *sink = 1;
}

template <typename T>
__global__ void copy_words(const T* __restrict__ from, T* __restrict__ to, size_t count) {
    constexpr int kSteps = 8;
    const size_t first = size_t{blockIdx.x} * kThreads * kSteps + threadIdx.x;
    T held[kSteps];
#pragma unroll
    for (int k = 0; k < kSteps; ++k)
        if (first + k * kThreads < count) held[k] = from[first + k * kThreads];
#pragma unroll
    for (int k = 0; k < kSteps; ++k)
        if (first + k * kThreads < count) to[first + k * kThreads] = held[k];
}

// A lane reads 4 bytes of every stride words: a sector of 32 bytes for each lane.
__global__ void read_strided(const float* __restrict__ from, size_t count, int stride, float* sink) {
    float sum = 0.0f;
    const size_t step = size_t{gridDim.x} * kThreads;
#pragma unroll 8
    for (size_t i = size_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += step)
        sum += __ldcs(from + i * stride);
    if (sum == -1.0f) *sink = sum;
}

template <typename T>
__global__ void multiply_add(T factor, T term, int steps, T* sink) {
    T live[16];
#pragma unroll
    for (int k = 0; k < 16; ++k) live[k] = T(threadIdx.x * 3 + k);
    for (int step = 0; step < steps; ++step)
#pragma unroll
        for (int k = 0; k < 16; ++k) live[k] = live[k] * factor + term;
    T sum = T(0);
#pragma unroll
    for (int k = 0; k < 16; ++k) sum += live[k];
    if (sum == T(1234567)) *sink = sum;
}

__global__ void reciprocal_roots(int steps, float* sink) {
    float live[16];
#pragma unroll
    for (int k = 0; k < 16; ++k) live[k] = float(threadIdx.x + k + 1);
    for (int step = 0; step < steps; ++step)
#pragma unroll
        for (int k = 0; k < 16; ++k) asm volatile("rsqrt.approx.ftz.f32 %0, %0;" : "+f"(live[k]));
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < 16; ++k) sum += live[k];
    if (sum == -1.0f) *sink = sum;
}

// A step is four loads of 16 bytes by each lane, a warp's next to each other: no bank is asked twice in
// a wavefront. The places are fixed, and volatile loads stay in the loop.
__global__ void read_shared(int steps, float* sink) {
    constexpr int kLoads = 4;
    __shared__ float4 words[kLoads * kThreads];
    for (int i = threadIdx.x; i < kLoads * kThreads; i += kThreads) words[i] = make_float4(1.0f, 2.0f, 3.0f, 4.0f);
    __syncthreads();
    const unsigned own = unsigned(__cvta_generic_to_shared(words + threadIdx.x));
    float sums[kLoads] = {};
#pragma unroll 2
    for (int step = 0; step < steps; ++step) {
#pragma unroll
        for (int k = 0; k < kLoads; ++k) {
            float4 v;
            asm volatile("ld.volatile.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                         : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                         : "r"(own + k * kThreads * 16));
            sums[k] += v.x;
        }
    }
    if (sums[0] + sums[1] + sums[2] + sums[3] == -1.0f) *sink = sums[0];
}

struct Machine {
    int sms = 0;
    size_t l2 = 0, bytes = 0;
    char *first = nullptr, *second = nullptr;
};

struct Case {
    std::string name, mix;
    bool at_ceiling;
    std::function<void()> launch;
};

static double time_launch(const std::function<void()>& launch) {
    cudaEvent_t start, end;
    REQUIRE(cudaEventCreate(&start));
    REQUIRE(cudaEventCreate(&end));
    auto run = [&](int count) {
        REQUIRE(cudaEventRecord(start));
        for (int i = 0; i < count; ++i) launch();
        REQUIRE(cudaEventRecord(end));
        REQUIRE(cudaEventSynchronize(end));
        float ms = 0.0f;
        REQUIRE(cudaEventElapsedTime(&ms, start, end));
        return double{ms} * 1e3 / count;
    };
    run(1);
    REQUIRE(cudaGetLastError());
    const double once = run(2);
    const int count = std::max(1, int(kBatchUs / once));
    std::vector<double> times;
    for (double spent = 0.0; spent < kBudgetUs && times.size() < 31;) {
        times.push_back(run(count));
        spent += times.back() * count;
    }
    std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
    return times[times.size() / 2];
}

static std::string field(const char* name, double value) {
    char text[96];
    std::snprintf(text, sizeof text, "\"%s\": %.17g", name, value);
    return text;
}

static std::string pair(const char* one, double value, const char* other, double second) {
    return field(one, value) + ", " + field(other, second);
}

template <int Loads, int Stores>
static void add_streams(std::vector<Case>& cases, const Machine& m) {
    const std::string of = std::to_string(Loads) + ":" + std::to_string(Stores);
    const size_t count = m.bytes / 16 / std::max({Loads, Stores, 1});
    cases.push_back({"memory " + of, pair("read_bytes", 16.0 * count * Loads, "write_bytes", 16.0 * count * Stores),
                     true, [=] {
                         const unsigned blocks = unsigned((count + kThreads * 4 - 1) / (kThreads * 4));
                         stream<Loads, Stores><<<blocks, kThreads>>>(
                             reinterpret_cast<float4*>(m.first), reinterpret_cast<float4*>(m.second), count);
                     }});
    constexpr int kRounds = 64;
    const unsigned cached = unsigned(m.l2 / 5 / (Loads + Stores) / 16);
    const double bytes = 16.0 * cached * kRounds;
    cases.push_back({"L2 " + of, pair("l2_read_bytes", bytes * Loads, "l2_write_bytes", bytes * Stores),
                     true, [=] {
                         stream_cached<Loads, Stores><<<m.sms * 8, kThreads>>>(
                             reinterpret_cast<float4*>(m.first),
                             reinterpret_cast<float4*>(m.first) + size_t{cached} * Loads, cached, kRounds);
                     }});
}

template <typename T, int Lanes>
static void add_gather(std::vector<Case>& cases, const Machine& m, double ratio) {
    constexpr int kSteps = 128;
    const int piece = int(sizeof(T)) * Lanes;
    const unsigned pieces = unsigned(ratio * double(m.l2) / piece);
    const int blocks = m.sms * 32;
    const double read = double(blocks) * kThreads * kSteps * sizeof(T);
    const std::string where = ratio > 1 ? "memory" : "L2";
    cases.push_back({"gather " + where + " " + std::to_string(piece) + " B",
                     pair("random_bytes", read, "piece_bytes", piece) + ", " + field("buffer_ratio", ratio), true,
                     [=] {
                         gather<T, Lanes><<<blocks, kThreads>>>(reinterpret_cast<T*>(m.first), pieces, kSteps,
                                                                reinterpret_cast<float*>(m.second));
                     }});
}

static void add_atomics(std::vector<Case>& cases, const Machine& m) {
    for (unsigned words : {1u, 32u, 1024u, 1u << 20}) {
        const int blocks = m.sms * 8, steps = words < 1024 ? 8 : 64;
        const double count = double(blocks) * kThreads * steps;
        cases.push_back({"atomics global " + std::to_string(words), pair("atomics", count, "atomic_words", words),
                         true, [=] {
                             add_global<<<blocks, kThreads>>>(reinterpret_cast<float*>(m.second), words - 1, steps);
                         }});
    }
    for (unsigned words : {1u, 32u, 1024u}) {
        const int blocks = m.sms * 8, steps = 2048;
        const double count = double(blocks) * kThreads * steps;
        cases.push_back({"atomics shared " + std::to_string(words),
                         pair("shared_atomics", count, "shared_atomic_words", words), true, [=] {
                             add_shared<<<blocks, kThreads>>>(words - 1, steps,
                                                              reinterpret_cast<unsigned*>(m.second));
                         }});
    }
}

template <typename T>
static void add_copy(std::vector<Case>& cases, const Machine& m) {
    const size_t bytes = m.bytes, count = bytes / sizeof(T);
    cases.push_back({"copy " + std::to_string(sizeof(T)) + " B a lane",
                     pair("read_bytes", double(bytes), "write_bytes", double(bytes)) + ", " +
                         field("lane_bytes", double(sizeof(T))),
                     true, [=] {
                         const unsigned blocks = unsigned((count + kThreads * 8 - 1) / (kThreads * 8));
                         copy_words<<<blocks, kThreads>>>(reinterpret_cast<T*>(m.first),
                                                          reinterpret_cast<T*>(m.second), count);
                     }});
}

static void add_strided(std::vector<Case>& cases, const Machine& m, int words) {
    const size_t count = m.bytes / 4 / words;
    cases.push_back({"read 4 B of every " + std::to_string(4 * words) + " B",
                     field("read_bytes", 32.0 * count), words == 8, [=] {
                         read_strided<<<m.sms * 16, kThreads>>>(reinterpret_cast<float*>(m.first), count, words,
                                                                reinterpret_cast<float*>(m.second));
                     }});
}

static std::string work(const char* pipe, double count) {
    char text[96];
    std::snprintf(text, sizeof text, "\"work\": [[\"%s\", %.17g]]", pipe, count);
    return text;
}

template <typename T>
static void add_products(std::vector<Case>& cases, const Machine& m, const char* pipe) {
    const int blocks = m.sms * 16, steps = 1024;
    cases.push_back({std::string(pipe) + " chains", work(pipe, double(blocks) * kThreads * steps * 16), true, [=] {
                         multiply_add<T><<<blocks, kThreads>>>(T(7), T(5), steps, reinterpret_cast<T*>(m.second));
                     }});
}

static std::vector<Case> list_cases(const Machine& m) {
    std::vector<Case> cases;
    add_streams<1, 0>(cases, m);
    add_streams<3, 1>(cases, m);
    add_streams<2, 1>(cases, m);
    add_streams<1, 1>(cases, m);
    add_streams<1, 2>(cases, m);
    add_streams<0, 1>(cases, m);
    for (double ratio : {0.25, 4.0}) {
        add_gather<uint32_t, 1>(cases, m, ratio);
        add_gather<uint2, 1>(cases, m, ratio);
        add_gather<uint4, 1>(cases, m, ratio);
        add_gather<uint4, 64>(cases, m, ratio);
    }
    add_gather<uint4, 8>(cases, m, 4.0);
    add_atomics(cases, m);
    add_copy<uint8_t>(cases, m);
    add_copy<uint16_t>(cases, m);
    add_copy<uint32_t>(cases, m);
    add_strided(cases, m, 8);
    add_strided(cases, m, 32);
    add_products<float>(cases, m, "fma");
    add_products<double>(cases, m, "fp64");
    add_products<unsigned>(cases, m, "integer");
    const int blocks = m.sms * 16, steps = 2048;
    const double count = double(blocks) * kThreads * steps * 16;
    auto* sink = reinterpret_cast<float*>(m.second);
    cases.push_back({"special functions", work("special", count), true,
                     [=] { reciprocal_roots<<<blocks, kThreads>>>(steps, sink); }});
    cases.push_back({"shared memory stream", work("shared", count * 4), true,
                     [=] { read_shared<<<blocks, kThreads>>>(steps, sink); }});
    return cases;
}

int main(int count, char** arguments) {
    Machine m;
    const std::string wanted = count > 1 ? arguments[1] : "list";
    if (wanted != "list") {
        cudaDeviceProp gpu{};
        REQUIRE(cudaGetDeviceProperties(&gpu, 0));
        m.sms = gpu.multiProcessorCount;
        m.l2 = size_t(gpu.l2CacheSize);
        m.bytes = std::min(std::max(size_t{512} << 20, 8 * m.l2), size_t(gpu.totalGlobalMem / 8));
        REQUIRE(cudaMalloc(&m.first, m.bytes));
        REQUIRE(cudaMalloc(&m.second, m.bytes));
        REQUIRE(cudaMemset(m.first, 0, m.bytes));
        REQUIRE(cudaMemset(m.second, 0, m.bytes));
    } else {
        m.l2 = m.bytes = size_t{1} << 25;
    }
    for (const Case& one : list_cases(m)) {
        if (wanted == "list") {
            std::printf("%s\n", one.name.c_str());
        } else if (one.name == wanted) {
            std::printf("{\"kernel\": \"%s\", \"at_ceiling\": %s, \"us\": %.6g, \"mix\": {%s}}\n",
                        one.name.c_str(), one.at_ceiling ? "true" : "false", time_launch(one.launch),
                        one.mix.c_str());
            return 0;
        }
    }
    return wanted == "list" ? 0 : 1;
}
