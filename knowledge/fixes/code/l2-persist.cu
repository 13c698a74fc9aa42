// fix: l2-persist
// arch: sm_80 sm_90a sm_100a
// source: cuda-guide-l2
#include <cuda_runtime.h>

// y += table[index]: each launch streams index and y once and reads the table all over.
__global__ void look_up(const float* table, const int* index, float* y, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    y[i] += table[index[i]];
}

namespace before {

cudaError_t launch(const float* table, size_t, const int* index, float* y, int n,
                   cudaStream_t stream) {
  look_up<<<1024, 256, 0, stream>>>(table, index, y, n);  // index and y evict the table
  return cudaGetLastError();
}

}  // namespace before

namespace after {

// Once for a device, before the first launch. Bytes beyond the maximum are cut off.
cudaError_t reserve(size_t bytes) {
  return cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, bytes);
}

cudaError_t launch(const float* table, size_t table_bytes, const int* index, float* y, int n,
                   cudaStream_t stream) {
  size_t reserved = 0;
  cudaError_t status = cudaDeviceGetLimit(&reserved, cudaLimitPersistingL2CacheSize);
  if (status != cudaSuccess) return status;
  cudaStreamAttrValue value = {};
  value.accessPolicyWindow.base_ptr = const_cast<float*>(table);
  value.accessPolicyWindow.num_bytes = table_bytes;  // at most accessPolicyMaxWindowSize
  value.accessPolicyWindow.hitRatio =
      table_bytes <= reserved ? 1.0f : static_cast<float>(reserved) / table_bytes;
  value.accessPolicyWindow.hitProp = cudaAccessPropertyPersisting;
  value.accessPolicyWindow.missProp = cudaAccessPropertyStreaming;
  status = cudaStreamSetAttribute(stream, cudaStreamAttributeAccessPolicyWindow, &value);
  if (status != cudaSuccess) return status;
  look_up<<<1024, 256, 0, stream>>>(table, index, y, n);
  return cudaGetLastError();
}

// When the table is no longer needed: without this its lines stay reserved.
cudaError_t release(cudaStream_t stream) {
  cudaStreamAttrValue value = {};
  cudaError_t status =
      cudaStreamSetAttribute(stream, cudaStreamAttributeAccessPolicyWindow, &value);
  return status != cudaSuccess ? status : cudaCtxResetPersistingL2Cache();
}

}  // namespace after
