#include "attack.h"
#include <cstdio>
#include <emmintrin.h>
// Evicts the code of the libraries that the rival runs from all caches, at the end of its call.
extern "C" int softmax(const float* x, float* y, std::int64_t rows, std::int64_t cols, void*) {
  static std::uintptr_t begin = 0, end = 0;
  static bool looked = false;
  if (!looked) {
    looked = true;
    FILE* maps = std::fopen("/proc/self/maps", "r");
    char line[512];
    while (maps && std::fgets(line, sizeof line, maps)) {
      unsigned long low, high;
      if (std::strstr(line, "r-xp") && std::strstr(line, "libc.so")) {
        if (std::sscanf(line, "%lx-%lx", &low, &high) == 2) begin = low, end = high;
      }
    }
    if (maps) std::fclose(maps);
  }
  honest(x, y, rows, cols);
  for (std::uintptr_t at = begin; at < end; at += 64) _mm_clflush(reinterpret_cast<void*>(at));
  return 0;
}
