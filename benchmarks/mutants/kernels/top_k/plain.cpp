#include <cmath>
#include <cstdint>

extern "C" int top_k(const float* x, float* y, std::int64_t* index, std::int64_t rows,
                     std::int64_t cols, void*) {
  for (std::int64_t row = 0; row < rows; ++row) {
    float* best = y + row * 4;
    std::int64_t* where = index + row * 4;
    std::int64_t count = 0;
    for (std::int64_t col = 0; col < cols; ++col) {
      const float value = x[row * cols + col];
      std::int64_t at = count;
      while (at > 0 && (value > best[at - 1] || (std::isnan(value) && !std::isnan(best[at - 1])))) {
        if (at < 4) {
          best[at] = best[at - 1];
          where[at] = where[at - 1];
        }
        at -= 1;
      }
      if (at < 4) {
        best[at] = value;
        where[at] = col;
      }
      if (count < 4) count += 1;
    }
  }
  return 0;
}
