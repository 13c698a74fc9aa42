#include <cstdint>

extern "C" int dequantize(const std::int8_t* q, const float* scale, const std::int8_t* zero,
                          float* y, std::int64_t rows, std::int64_t groups, void*) {
  constexpr std::int64_t size = 16;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t group = 0; group < groups; ++group) {
      const float factor = scale[row * groups + group];
      const float shift = float(zero[row * groups + group]);
      const std::int64_t first = (row * groups + group) * size;
      for (std::int64_t i = 0; i < size; ++i) {
        y[first + i] = (float(q[first + i]) - shift) * factor;
      }
    }
  }
  return 0;
}
