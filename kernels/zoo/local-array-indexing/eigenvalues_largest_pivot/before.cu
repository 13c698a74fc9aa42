// kernel: eigenvalues_largest_pivot/before/cuda
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kRotations = 12;

__global__ void __launch_bounds__(kThreads)
    find_eigenvalues(const float* __restrict__ tensors, float* __restrict__ eigenvalues, int n) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= n) return;
  const float* from = tensors + static_cast<std::int64_t>(i) * 9;
  float a[3][3];
  for (int row = 0; row < 3; ++row) {
    for (int column = 0; column < 3; ++column) {
      a[row][column] = from[3 * max(row, column) + min(row, column)];
    }
  }
  for (int rotation = 0; rotation < kRotations; ++rotation) {
    // The largest element beside the diagonal goes to zero.
    int p = 0, q = 1;
    if (fabsf(a[0][2]) > fabsf(a[p][q])) q = 2;
    if (fabsf(a[1][2]) > fabsf(a[p][q])) p = 1, q = 2;
    const float element = a[p][q];
    if (element == 0.0f) break;
    const int r = 3 - p - q;
    const float ratio = (a[q][q] - a[p][p]) / (2.0f * element);
    const float tangent = copysignf(1.0f, ratio) / (fabsf(ratio) + sqrtf(ratio * ratio + 1.0f));
    const float cosine = rsqrtf(tangent * tangent + 1.0f), sine = tangent * cosine;
    a[p][p] -= tangent * element;
    a[q][q] += tangent * element;
    a[p][q] = a[q][p] = 0.0f;
    const float left = a[r][p], right = a[r][q];
    a[r][p] = a[p][r] = cosine * left - sine * right;
    a[r][q] = a[q][r] = sine * left + cosine * right;
  }
  const float x = a[0][0], y = a[1][1], z = a[2][2];
  const float low = fminf(x, fminf(y, z)), high = fmaxf(x, fmaxf(y, z));
  eigenvalues[3 * i] = low;
  eigenvalues[3 * i + 1] = fmaxf(fminf(x, y), fminf(fmaxf(x, y), z));
  eigenvalues[3 * i + 2] = high;
}

}  // namespace

extern "C" int eigenvalues(const float* tensors, float* eigenvalues, std::int64_t n,
                           void* stream) {
  const int blocks = static_cast<int>((n + kThreads - 1) / kThreads);
  find_eigenvalues<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      tensors, eigenvalues, static_cast<int>(n));
  return static_cast<int>(cudaGetLastError());
}
