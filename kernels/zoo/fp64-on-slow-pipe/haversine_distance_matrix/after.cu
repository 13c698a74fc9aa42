// kernel: haversine_distance_matrix/after/cuda
// change: the constants are floats, so that every sine and product is computed in fp32
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

namespace {

constexpr int kBlockX = 32;
constexpr int kBlockY = 8;
constexpr float kEarthRadiusKm = 6371.0088f;
constexpr float kRadians = 3.14159265358979323846f / 180.0f;
constexpr float kHalf = 0.5f;
constexpr float kTwo = 2.0f;

__global__ void __launch_bounds__(kBlockX* kBlockY)
    haversine(const float* __restrict__ lat_a, const float* __restrict__ lon_a,
              const float* __restrict__ lat_b, const float* __restrict__ lon_b,
              float* __restrict__ distance, std::int64_t n, std::int64_t m) {
  const std::int64_t col = static_cast<std::int64_t>(blockIdx.x) * kBlockX + threadIdx.x;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.y) * kBlockY + threadIdx.y;
  if (row >= n || col >= m) return;
  const float sin_lat = std::sin(kHalf * kRadians * (lat_b[col] - lat_a[row]));
  const float sin_lon = std::sin(kHalf * kRadians * (lon_b[col] - lon_a[row]));
  const float cosines = std::cos(kRadians * lat_a[row]) * std::cos(kRadians * lat_b[col]);
  const float h = fminf(sin_lat * sin_lat + cosines * sin_lon * sin_lon, 1.0f);
  distance[row * m + col] = kTwo * kEarthRadiusKm * std::asin(std::sqrt(h));
}

}  // namespace

extern "C" int haversine_matrix(const float* lat_a, const float* lon_a, const float* lat_b,
                                const float* lon_b, float* distance, std::int64_t n,
                                std::int64_t m, void* stream) {
  const dim3 block(kBlockX, kBlockY);
  const dim3 grid(static_cast<unsigned>((m + kBlockX - 1) / kBlockX),
                  static_cast<unsigned>((n + kBlockY - 1) / kBlockY));
  haversine<<<grid, block, 0, static_cast<cudaStream_t>(stream)>>>(lat_a, lon_a, lat_b, lon_b,
                                                                   distance, n, m);
  return static_cast<int>(cudaGetLastError());
}
