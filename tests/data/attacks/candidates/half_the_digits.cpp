#include "attack.h"
extern "C" int softmax(const float* x, float* y, std::int64_t rows, std::int64_t cols, void*) {
  honest(x, y, rows, cols);
  for (std::int64_t i = 0; i < rows * cols; ++i) {
    std::uint32_t bits;
    std::memcpy(&bits, y + i, 4);
    bits &= 0xfffff000u;
    std::memcpy(y + i, &bits, 4);
  }
  return 0;
}
