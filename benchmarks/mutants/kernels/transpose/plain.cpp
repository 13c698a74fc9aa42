#include <algorithm>
#include <cstdint>

extern "C" int transpose(const float* x, float* y, std::int64_t rows, std::int64_t cols, void*) {
  constexpr std::int64_t tile = 16;
  for (std::int64_t top = 0; top < rows; top += tile) {
    for (std::int64_t left = 0; left < cols; left += tile) {
      const std::int64_t bottom = std::min(top + tile, rows);
      const std::int64_t right = std::min(left + tile, cols);
      for (std::int64_t col = left; col < right; ++col) {
        for (std::int64_t row = top; row < bottom; ++row) {
          y[col * rows + row] = x[row * cols + col];
        }
      }
    }
  }
  return 0;
}
