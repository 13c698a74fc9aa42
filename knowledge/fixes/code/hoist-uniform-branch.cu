// fix: hoist-uniform-branch
// arch: sm_80 sm_90a sm_100a
// source: gpa
#include <cuda_runtime.h>

enum class Kind { kRelu, kSoftplus, kTanh };

__device__ float activate(float v, Kind kind) {
  if (kind == Kind::kRelu) return fmaxf(v, 0.0f);
  if (kind == Kind::kTanh) return tanhf(v);
  return fmaxf(v, 0.0f) + log1pf(expf(-fabsf(v)));
}

// kind is the same for the whole grid; a grid-stride loop.
namespace before {

// Each element asks for the kind again. nvcc splits off only the shortest path by itself;
// the others share a loop, with the registers of the largest.
__global__ void apply(const float* __restrict__ x, float* __restrict__ y, int n, Kind kind) {
  const int stride = gridDim.x * blockDim.x;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    y[i] = activate(x[i], kind);
  }
}

void launch(const float* x, float* y, int n, Kind kind, cudaStream_t stream) {
  apply<<<1024, 256, 0, stream>>>(x, y, n, kind);
}

}  // namespace before

namespace after {

// One kernel per kind: no branch, and registers and code for one kind only.
template <Kind kKind>
__global__ void apply(const float* __restrict__ x, float* __restrict__ y, int n) {
  const int stride = gridDim.x * blockDim.x;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    y[i] = activate(x[i], kKind);
  }
}

void launch(const float* x, float* y, int n, Kind kind, cudaStream_t stream) {
  const auto kernel = kind == Kind::kRelu   ? apply<Kind::kRelu>
                      : kind == Kind::kTanh ? apply<Kind::kTanh>
                                            : apply<Kind::kSoftplus>;
  kernel<<<1024, 256, 0, stream>>>(x, y, n);
}

}  // namespace after
