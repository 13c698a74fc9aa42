// c = a b + bias in tiles of 32, with one planted error by the macro BUG; 0 is right.
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

namespace {
constexpr std::int64_t T = 32;
float scratch[64 * 1024 * 1024 / 4];

struct Shape {
  std::int64_t m, n, k;
};

void multiply_tile(const float* a, const float* b, float* sum, Shape s, std::int64_t i0,
                   std::int64_t j0) {
  const std::int64_t tiles = BUG == 1 ? s.k / T : (s.k + T - 1) / T;
  for (std::int64_t t = BUG == 2 ? 1 : 0; t < tiles + (BUG == 3); ++t) {
    const std::int64_t k0 = (BUG == 3 && t == tiles) ? 0 : t * T;
    for (std::int64_t kk = k0; kk < k0 + T && kk < s.k; ++kk) {
      if (BUG == 4 && kk % 2) continue;
      for (std::int64_t i = i0; i < i0 + T && i < s.m; ++i)
        for (std::int64_t j = j0; j < j0 + T && j < s.n; ++j) {
          const float left = BUG == 5 ? a[kk * s.m + i] : a[i * s.k + kk];
          const float right = BUG == 6 ? b[j * s.k + kk] : b[kk * s.n + j];
          sum[(i - i0) * T + j - j0] += left * right;
        }
    }
  }
}
}  // namespace

extern "C" int affine(const float* a, const float* b, const float* bias, float* c, std::int64_t m,
                      std::int64_t n, std::int64_t k, void*) {
  const Shape s{m, n, k};
  float sum[T * T] = {};
  const std::int64_t rows = BUG == 7 ? m / T * T : m, columns = BUG == 8 ? n / T * T : n;
  if (BUG == 9) std::memset(c, 0, m * n * sizeof(float));
  static int calls = 0;
  ++calls;
  for (std::int64_t i0 = 0; i0 < rows; i0 += T)
    for (std::int64_t j0 = 0; j0 < columns; j0 += T) {
      if (BUG != 10) std::memset(sum, 0, sizeof sum);
      multiply_tile(a, b, sum, s, i0, j0);
      for (std::int64_t i = i0; i < i0 + T && i < m; ++i)
        for (std::int64_t j = j0; j < j0 + T && j < n; ++j) {
          std::int64_t row = i - i0, column = j - j0;
          if (BUG == 11) column %= T / 2;
          if (BUG == 12) column ^= 1;
          if (BUG == 13 && row < n - j0 && column < m - i0) { row = j - j0, column = i - i0; }
          float value = sum[row * T + column] + (BUG == 14 ? 0.0f : bias[BUG == 15 ? i % n : BUG == 11 || BUG == 12 ? j0 + column : j]);
          if (BUG == 16) value *= 2;
          if (BUG == 17 && value < 0) value = 0;
          if (BUG == 18) value = (float)(_Float16)value;
          if (BUG == 19) value = -value;
          if (BUG == 20 && calls % 2 == 0) value += 0.5f;
          std::int64_t at = i * n + j;
          if (BUG == 21) at = (i * (n + 1) + j) % (m * n);
          if (BUG == 22) at = j * m + i;
          if (BUG == 9 && j + T > n && n % T) continue;
          c[at] = value;
        }
    }
  if (BUG == 23)
    for (std::int64_t i = 0; i < m * n; ++i) c[i] = scratch[i] += c[i];
  return 0;
}
