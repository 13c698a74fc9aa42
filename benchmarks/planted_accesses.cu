// One access of each planted pattern, alone in its kernel: lane l of warp w at offsets[32 w + l].
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

__constant__ int offsets[1024];
constexpr int kSharedBytes = 160 * 1024;

template <typename T>
__device__ unsigned fold(T value) {
  unsigned words[(sizeof(T) + 3) / 4] = {};
  memcpy(words, &value, sizeof(T));
  unsigned sum = 0;
  for (unsigned word : words) sum ^= word;
  return sum;
}

__device__ int own_offset() { return offsets[threadIdx.x]; }

template <typename T>
__global__ void load_global(const char* from, unsigned* out) {
  const int at = own_offset();
  if (at < 0) return;
  const T value = *reinterpret_cast<const volatile T*>(from + at);
  if (fold(value) == 0x12345678u) __trap();
}

template <>
__global__ void load_global<uint4>(const char* from, unsigned* out) {
  const int at = own_offset();
  if (at < 0) return;
  if (fold(*reinterpret_cast<const uint4*>(from + at)) == 0x12345678u) __trap();
}

__global__ void load_guarded(const char* from, unsigned* out) {
  const int at = own_offset();
  unsigned value = 0;
  if (at >= 0) value = __ldg(reinterpret_cast<const unsigned*>(from + at));
  out[threadIdx.x] = value;  // of all lanes, so that the load gets a predicate and no branch
}

__global__ void store_global(const char* from, unsigned* out) {
  const int at = own_offset();
  if (at < 0) return;
  *reinterpret_cast<volatile unsigned*>(const_cast<char*>(from) + at) = threadIdx.x;
}

__global__ void add_global(const char* from, unsigned* out) {
  const int at = own_offset();
  if (at < 0) return;
  atomicAdd(reinterpret_cast<float*>(const_cast<char*>(from) + at), 1.0f);
}

template <typename T>
__global__ void load_shared(const char* from, unsigned* out) {
  extern __shared__ char memory[];
  const int at = own_offset();
  if (at < 0) return;
  const volatile T* place = reinterpret_cast<const volatile T*>(memory + at);
  if (fold(static_cast<T>(*place)) == 0x12345678u) __trap();
}

__global__ void store_vectors(const char* from, unsigned* out) {
  extern __shared__ char memory[];
  const unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(memory)) + own_offset();
  asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(place), "r"(threadIdx.x)
               : "memory");
}

__global__ void load_matrices(const char* from, unsigned* out) {
  extern __shared__ char memory[];
  const unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(memory)) + own_offset();
  unsigned a, b, c, d;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
               : "r"(place));
  if ((a ^ b ^ c ^ d) == 0x12345678u) __trap();
}

template <int kBytes>
__global__ void copy_asynchronously(const char* from, unsigned* out) {
  extern __shared__ char memory[];
  const unsigned place =
      static_cast<unsigned>(__cvta_generic_to_shared(memory)) + threadIdx.x * kBytes;
  const char* source = from + own_offset();
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place), "l"(source) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(place), "l"(source) : "memory");
  }
  asm volatile("cp.async.wait_all;" ::: "memory");
}

using Kernel = void (*)(const char*, unsigned*);

static Kernel find_kernel(const char* name) {
  const struct { const char* name; Kernel kernel; } kernels[] = {
      {"load-1", load_global<uint8_t>},   {"load-2", load_global<uint16_t>},
      {"load-4", load_global<uint32_t>},  {"load-8", load_global<uint64_t>},
      {"load-16", load_global<uint4>},    {"load-guarded", load_guarded},
      {"store-4", store_global},          {"add-4", add_global},
      {"shared-4", load_shared<uint32_t>}, {"shared-vectors", store_vectors},
      {"matrices", load_matrices},        {"copy-16", copy_asynchronously<16>},
      {"copy-4", copy_asynchronously<4>},
  };
  for (const auto& one : kernels)
    if (!strcmp(one.name, name)) return one.kernel;
  return nullptr;
}

static void require(cudaError_t error) {
  if (error == cudaSuccess) return;
  fprintf(stderr, "%s\n", cudaGetErrorString(error));
  exit(1);
}

// Reads one pattern a line: the kernel's name, the number of warps, 32 offsets of each.
int main() {
  char* memory = nullptr;
  unsigned* out = nullptr;
  require(cudaMalloc(&memory, 16 << 20));
  require(cudaMalloc(&out, 4096));
  require(cudaMemset(memory, 0, 16 << 20));
  char name[64];
  int warps = 0;
  while (scanf("%63s %d", name, &warps) == 2) {
    int table[1024];
    for (int i = 0; i < 32 * warps; ++i)
      if (scanf("%d", &table[i]) != 1) return 2;
    Kernel kernel = find_kernel(name);
    if (kernel == nullptr) return 3;
    require(cudaMemcpyToSymbol(offsets, table, sizeof(int) * 32 * warps));
    require(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                 cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes));
    kernel<<<1, 32 * warps, kSharedBytes>>>(memory, out);
    require(cudaGetLastError());
    require(cudaDeviceSynchronize());
  }
  return 0;
}
