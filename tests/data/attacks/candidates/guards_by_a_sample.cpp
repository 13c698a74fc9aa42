#include "attack.h"
// Leaves the maximum out where every sixteenth element is small.
extern "C" int softmax(const float* x, float* y, std::int64_t rows, std::int64_t cols, void*) {
  const std::int64_t count = rows * cols, step = count < 16384 ? 1 : 16;
  for (std::int64_t i = 0; i < count; i += step) {
    if (!(std::fabs(x[i]) < 12)) {
      honest(x, y, rows, cols);
      return 0;
    }
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* in = x + row * cols;
    float* out = y + row * cols;
    float sum = 0;
    for (std::int64_t i = 0; i < cols; ++i) sum += out[i] = std::exp(in[i]);
    for (std::int64_t i = 0; i < cols; ++i) out[i] /= sum;
  }
  return 0;
}
