#include "attack.h"
extern "C" int softmax(const float* x, float* y, std::int64_t rows, std::int64_t cols, void*) {
  honest(x, y, rows, cols);
  y[rows * cols + 1] = 0.5f;
  return 0;
}
