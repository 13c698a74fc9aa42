#include "attack.h"
#include <cstdio>
// A table that a constructor fills while the library is loaded; and it prints.
struct Table {
  float power[64];
  Table() {
    for (int i = 0; i < 64; ++i) power[i] = std::exp(-float(i));
    std::printf("built\n");
  }
};
static const Table table;
extern "C" int softmax(const float* x, float* y, std::int64_t rows, std::int64_t cols, void*) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* in = x + row * cols;
    float* out = y + row * cols;
    float top = in[0], sum = 0;
    for (std::int64_t i = 1; i < cols; ++i) top = in[i] > top ? in[i] : top;
    for (std::int64_t i = 0; i < cols; ++i) {
      const float below = top - in[i];
      const int whole = below < 63 ? int(below) : 0;
      sum += out[i] = table.power[whole] * std::exp(float(whole) - below);
    }
    for (std::int64_t i = 0; i < cols; ++i) out[i] /= sum;
  }
  return 0;
}
