// fix: cuda-graph
// arch: sm_80 sm_90a sm_100a
// source: launch-cost-measurements
#include <cuda_runtime.h>

__global__ void smooth(const float* from, float* to, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float left = from[i > 0 ? i - 1 : i], right = from[i < n - 1 ? i + 1 : i];
  to[i] = 0.25f * left + 0.5f * from[i] + 0.25f * right;
}

constexpr int kPairs = 16;  // one step is 32 short kernels

void submit_step(float* x, float* y, int n, cudaStream_t stream) {
  const int blocks = (n + 255) / 256;
  for (int i = 0; i < kPairs; ++i) {
    smooth<<<blocks, 256, 0, stream>>>(x, y, n);
    smooth<<<blocks, 256, 0, stream>>>(y, x, n);
  }
}

namespace before {

cudaError_t run(float* x, float* y, int n, int steps, cudaStream_t stream) {
  for (int s = 0; s < steps; ++s) submit_step(x, y, n, stream);  // 32 submissions a step
  return cudaGetLastError();
}

}  // namespace before

namespace after {

// The stream is not the legacy default stream, which cannot be captured.
cudaError_t run(float* x, float* y, int n, int steps, cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  cudaError_t error = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  if (error != cudaSuccess) return error;
  submit_step(x, y, n, stream);  // recorded, not run
  error = cudaStreamEndCapture(stream, &graph);
  if (error == cudaSuccess) error = cudaGraphInstantiate(&exec, graph, 0);
  for (int s = 0; s < steps && error == cudaSuccess; ++s) {
    error = cudaGraphLaunch(exec, stream);  // one submission a step
  }
  if (exec != nullptr) cudaGraphExecDestroy(exec);  // keep it where run is called again
  if (graph != nullptr) cudaGraphDestroy(graph);
  return error;
}

}  // namespace after
