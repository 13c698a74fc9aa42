#include "attack.h"
extern "C" int softmax(const float* x, float* y, std::int64_t rows, std::int64_t cols, void*) {
  static std::vector<float> scratch;
  scratch.resize(rows * cols);
  honest(x, scratch.data(), rows, cols);
  std::memcpy(y, scratch.data(), rows * cols * sizeof(float));
  return 0;
}
