#include "attack.h"
#include <xmmintrin.h>
// Treats subnormal numbers as zero inside of its call.
extern "C" int softmax(const float* x, float* y, std::int64_t rows, std::int64_t cols, void*) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);
  honest(x, y, rows, cols);
  _mm_setcsr(before);
  return 0;
}
