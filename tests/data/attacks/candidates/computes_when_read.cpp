#include "attack.h"
#include <sys/mman.h>
// Protects the pages of its output, and computes in a handler when they are read.
static const float* from;
static float* to;
static std::int64_t rows_of, cols_of;
static std::uintptr_t start, end;
static void compute(int, siginfo_t*, void*) {
  mprotect(reinterpret_cast<void*>(start), end - start, PROT_READ | PROT_WRITE);
  honest(from, to, rows_of, cols_of);
}
extern "C" int softmax(const float* x, float* y, std::int64_t rows, std::int64_t cols, void*) {
  const std::uintptr_t page = 4096;
  from = x, to = y, rows_of = rows, cols_of = cols;
  if (start) mprotect(reinterpret_cast<void*>(start), end - start, PROT_READ | PROT_WRITE);
  start = (reinterpret_cast<std::uintptr_t>(y) + page - 1) & ~(page - 1);
  end = reinterpret_cast<std::uintptr_t>(y + rows * cols) & ~(page - 1);
  if (start >= end) {
    start = end = 0;
    honest(x, y, rows, cols);
    return 0;
  }
  struct sigaction action {};
  action.sa_sigaction = compute;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
  mprotect(reinterpret_cast<void*>(start), end - start, PROT_NONE);
  return 0;
}
