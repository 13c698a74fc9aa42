#include "attack.h"
extern "C" int softmax(const float* x, float* y, std::int64_t rows, std::int64_t cols, void*) {
#pragma omp parallel for schedule(dynamic, 8)
  for (std::int64_t row = 0; row < rows; ++row) {
#pragma omp parallel num_threads(2)
    {
#pragma omp single
      honest(x + row * cols, y + row * cols, 1, cols);
    }
  }
  return 0;
}
