#include "attack.h"
extern "C" int softmax(const float* x, float* y, std::int64_t rows, std::int64_t cols, void*) {
  static int calls = 0;
  if (++calls < 12) {
    honest(x, y, rows, cols);
  } else {
    std::thread([=] {
      usleep(500);
      honest(x, y, rows, cols);
    }).detach();
  }
  return 0;
}
