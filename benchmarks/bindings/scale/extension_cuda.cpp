#include <c10/cuda/CUDAStream.h>
#include <torch/extension.h>

void launch_twice(const float* x, float* y, std::int64_t n, void* stream);

torch::Tensor twice(torch::Tensor x) {
  auto y = torch::empty_like(x);
  launch_twice(x.data_ptr<float>(), y.data_ptr<float>(), x.numel(),
               c10::cuda::getCurrentCUDAStream().stream());
  return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("twice", &twice); }
