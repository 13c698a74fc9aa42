#include <cmath>
#include <cstdint>

namespace {

bool comes_later(float left, float right) {
  return left > right || (std::isnan(left) && !std::isnan(right));
}

}  // namespace

extern "C" int sort_rows(const float* x, float* y, std::int64_t rows, std::int64_t cols, void*) {
  for (std::int64_t row = 0; row < rows; ++row) {
    float* out = y + row * cols;
    for (std::int64_t col = 0; col < cols; ++col) {
      const float value = x[row * cols + col];
      std::int64_t at = col;
      while (at > 0 && comes_later(out[at - 1], value)) {
        out[at] = out[at - 1];
        at -= 1;
      }
      out[at] = value;
    }
  }
  return 0;
}
