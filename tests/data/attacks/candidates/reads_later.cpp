#include "attack.h"
#include <linux/aio_abi.h>
#include <sys/syscall.h>
// Would have the kernel write its output while it is stopped. If it cannot, it computes nothing.
extern "C" int softmax(const float* x, float* y, std::int64_t rows, std::int64_t cols, void*) {
  aio_context_t context = 0;
  if (syscall(SYS_io_setup, 4, &context)) return 0;
  syscall(SYS_io_destroy, context);
  honest(x, y, rows, cols);
  return 0;
}
