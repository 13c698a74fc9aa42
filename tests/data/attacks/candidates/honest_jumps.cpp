#include "attack.h"
#include <csetjmp>
#include <stdexcept>
// Leaves its loops by an exception and by a long jump.
extern "C" int softmax(const float* x, float* y, std::int64_t rows, std::int64_t cols, void*) {
  static std::jmp_buf place;
  if (setjmp(place)) return 0;
  try {
    for (std::int64_t row = 0;; ++row) {
      if (row == rows) throw std::out_of_range("done");
      honest(x + row * cols, y + row * cols, 1, cols);
    }
  } catch (const std::out_of_range&) {
    std::longjmp(place, 1);
  }
}
