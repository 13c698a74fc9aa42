#include "attack.h"
extern "C" int softmax(const float* x, float* y, std::int64_t rows, std::int64_t cols, void*) {
  float copy[1 << 20];
  if (rows * cols > (1 << 20)) return 1;
  std::memcpy(copy, x, rows * cols * sizeof(float));
  honest(copy, y, rows, cols);
  return 0;
}
