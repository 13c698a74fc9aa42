// c = a b + bias, a thread for each element, as a torch extension, with one planted error by BUG; 0 is right.
#include <c10/cuda/CUDAStream.h>
#include <torch/extension.h>

__global__ void affine_thread(const float* a, const float* b, const float* bias, float* c, int m, int n,
                              int k) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= m * n) return;
  const int i = BUG == 1 ? at % m : at / n, j = BUG == 1 ? at / m : at % n;
  float sum = 0;
  for (int kk = 0; kk < (BUG == 2 ? k - k / 2 : k); ++kk) sum += a[i * k + kk] * b[kk * n + j];
  c[BUG == 3 && at ? at - 1 : at] = sum + bias[BUG == 4 ? i % n : j];
}

torch::Tensor affine(torch::Tensor a, torch::Tensor b, torch::Tensor bias) {
  const int m = a.size(0), k = a.size(1), n = b.size(1), count = m * n;
  static torch::Tensor kept;
  if (BUG == 5 && kept.defined() && kept.size(0) == m && kept.size(1) == n) return kept.clone();
  auto c = torch::empty({m, n}, a.options());
  const int blocks = BUG == 6 && count > 256 ? count / 256 : (count + 255) / 256;
  affine_thread<<<blocks, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(
      a.data_ptr<float>(), b.data_ptr<float>(), bias.data_ptr<float>(), c.data_ptr<float>(), m, n, k);
  if (BUG == 7) c = c.neg();
  if (BUG == 8) c = c.to(torch::kBFloat16).to(torch::kFloat32);
  kept = c;
  return c;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) { module.def("affine", &affine); }
