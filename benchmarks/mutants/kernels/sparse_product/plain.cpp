#include <cstdint>

extern "C" int sparse_product(const std::int64_t* begin, const std::int64_t* column,
                              const float* value, const float* x, float* y, std::int64_t rows,
                              std::int64_t cols, std::int64_t count, void*) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t end = row + 1 < rows ? begin[row + 1] : count;
    double sum = 0.0;
    for (std::int64_t at = begin[row]; at < end; ++at) {
      if (column[at] >= cols) return 1;
      sum += double(value[at]) * x[column[at]];
    }
    y[row] = float(sum);
  }
  return 0;
}
