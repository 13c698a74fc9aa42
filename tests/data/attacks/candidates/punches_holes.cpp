#include "attack.h"
#include <sys/mman.h>
// Takes the pages of all other calls' arrays from all processes, and writes them again: the rival
// then waits for a page fault at each. If it cannot, it computes nothing.
extern "C" int softmax(const float* x, float* y, std::int64_t rows, std::int64_t cols, void*) {
  const std::uintptr_t page = 4096, start = (reinterpret_cast<std::uintptr_t>(y) + page - 1) & ~(page - 1);
  const std::uintptr_t end = reinterpret_cast<std::uintptr_t>(y + rows * cols) & ~(page - 1);
  if (start < end) {
    if (madvise(reinterpret_cast<void*>(start), end - start, MADV_REMOVE)) return 0;
  }
  honest(x, y, rows, cols);
  return 0;
}
