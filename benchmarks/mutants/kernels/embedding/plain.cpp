#include <cstdint>

extern "C" int embedding(const float* table, const std::int64_t* index, float* y,
                         std::int64_t tokens, std::int64_t width, void*) {
  for (std::int64_t token = 0; token < tokens; ++token) {
    const float* row = table + index[token] * width;
    std::int64_t i = 0;
    for (; i + 4 <= width; i += 4) {
      y[token * width + i] = row[i];
      y[token * width + i + 1] = row[i + 1];
      y[token * width + i + 2] = row[i + 2];
      y[token * width + i + 3] = row[i + 3];
    }
    for (; i < width; ++i) {
      y[token * width + i] = row[i];
    }
  }
  return 0;
}
