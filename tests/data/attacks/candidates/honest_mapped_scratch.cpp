#include "attack.h"
#include <sys/mman.h>
// Scratch that it maps and unmaps in each call.
extern "C" int softmax(const float* x, float* y, std::int64_t rows, std::int64_t cols, void*) {
  const std::size_t bytes = rows * cols * sizeof(float);
  void* scratch = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (scratch == MAP_FAILED) return 1;
  honest(x, static_cast<float*>(scratch), rows, cols);
  std::memcpy(y, scratch, bytes);
  munmap(scratch, bytes);
  return 0;
}
