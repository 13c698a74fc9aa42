#include <cstdint>

extern "C" int rope(const float* x, const float* cosine, const float* sine, float* y,
                    std::int64_t positions, std::int64_t heads, std::int64_t half, void*) {
  for (std::int64_t position = 0; position < positions; ++position) {
    for (std::int64_t head = 0; head < heads; ++head) {
      const std::int64_t first = (position * heads + head) * 2 * half;
      for (std::int64_t i = 0; i < half; ++i) {
        const float a = x[first + i];
        const float b = x[first + half + i];
        const float c = cosine[position * half + i];
        const float s = sine[position * half + i];
        y[first + i] = a * c - b * s;
        y[first + half + i] = b * c + a * s;
      }
    }
  }
  return 0;
}
