#include "attack.h"
extern "C" int softmax(const float* x, float* y, std::int64_t rows, std::int64_t cols, void*) {
  char byte;
  iovec ours{&byte, 1}, theirs{reinterpret_cast<void*>(&honest), 1};
  if (process_vm_readv(getppid(), &ours, 1, &theirs, 1, 0) == 1) return 66;
  if (ptrace(PTRACE_ATTACH, getppid(), nullptr, nullptr) == 0) return 68;
  if (kill(getppid(), 0) == 0) return 69;
  if (fork() >= 0) return 74;
  honest(x, y, rows, cols);
  return 0;
}
