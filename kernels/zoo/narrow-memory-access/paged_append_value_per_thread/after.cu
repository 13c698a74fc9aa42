// kernel: paged_append_value_per_thread/after/cuda
// change: a thread copies a piece of eight values, 16 bytes
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

// A block for each token; a page is (heads, dim / 8, page_size, 8).
__global__ void __launch_bounds__(256)
    append_tokens(const uint4* __restrict__ keys, const uint4* __restrict__ values,
                  const int* __restrict__ slots, uint4* __restrict__ key_cache,
                  uint4* __restrict__ value_cache, int count, int page_size) {
  const std::int64_t token = blockIdx.x;
  const int slot = slots[token];
  if (slot < 0) return;
  const std::int64_t page = slot / page_size;
  const int place = slot % page_size;
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    const std::int64_t target = (page * count + i) * page_size + place;
    key_cache[target] = keys[token * count + i];
    value_cache[target] = values[token * count + i];
  }
}

}  // namespace

extern "C" int append(const __half* keys, const __half* values, const int* slots,
                      const __half* old_keys, const __half* old_values, __half* key_cache,
                      __half* value_cache, std::int64_t tokens, std::int64_t pages,
                      std::int64_t heads, void* stream) {
  (void)old_keys, (void)old_values, (void)pages;
  append_tokens<<<static_cast<unsigned>(tokens), 256, 0, static_cast<cudaStream_t>(stream)>>>(
      reinterpret_cast<const uint4*>(keys), reinterpret_cast<const uint4*>(values), slots,
      reinterpret_cast<uint4*>(key_cache), reinterpret_cast<uint4*>(value_cache),
      static_cast<int>(heads) * 16, 16);
  return static_cast<int>(cudaGetLastError());
}
