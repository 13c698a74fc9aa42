"""What kb init concludes from source text: shapes, launches, references, folders of headers."""

import json
import shutil
import subprocess

import pytest

from kernelkb.actions.init.init_project import init_project
from kernelkb.actions.init.init_source import summarize_source
from kernelkb.scaffold.cpp.build_flags import plan_includes
from kernelkb.scaffold.cpp.call_plan import plan_call
from kernelkb.scaffold.cpp.functions import read_facts

PRODUCT = """
#define TILE 16
template <typename T>
__global__ void product(const T* A, const T* B, T* C, int M, int N, int K) {
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= M || col >= N) return;
  T sum = 0;
  for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
  C[row * N + col] = sum;
}
void host(float* d_a, float* d_b, float* d_c) {
  int rows = 64, cols = 32, inner = 8;
  dim3 block(TILE, TILE);
  dim3 grid((cols + TILE - 1) / TILE, (rows + TILE - 1) / TILE);
  cudaMalloc(&d_a, 4);
  product<float><<<grid, block>>>(d_a, d_b, d_c, rows, cols, inner);
}
"""
ROWS = """
__global__ void row_softmax(const float* x, float* y, int cols) {
  const float* in = x + blockIdx.x * cols;
  for (int i = threadIdx.x; i < cols; i += blockDim.x) y[blockIdx.x * cols + i] = in[i];
}
"""


def plan_only_function(text):
    """Plan the call of the one function that a CUDA text offers."""
    (function,) = summarize_source("k.cu", text).functions
    return plan_call(function, read_facts(text))


def shapes_of(plan):
    return {p.name: p.shape for p in plan.function.parameters if p.role in ("input", "output")}


def test_subscripts_and_bounds_give_the_shapes():
    assert shapes_of(plan_only_function(PRODUCT)) == {
        "A": ("M", "K"),
        "B": ("K", "N"),
        "C": ("M", "N"),
    }


def test_rows_that_only_the_grid_counts_are_asked_for_beside_their_line():
    plan = plan_only_function(ROWS)

    assert (shapes_of(plan), plan.axes) == ({"x": (), "y": ()}, ("cols",))
    assert plan.function.parameters[0].use == "line 3: const float* in = x + blockIdx.x * cols;"


def test_the_grid_of_the_files_own_launch_is_used_with_the_arguments_sizes():
    plan = plan_only_function(PRODUCT)

    assert plan.configuration == ("grid", "block")
    assert "const auto cols = N;" in plan.statements
    assert plan.template == ("float",)


def test_rows_that_are_a_parameter_are_one_axis():
    plan = plan_only_function(
        "__global__ void row_sum(const float* in, float* out, int rows, int cols) {"
        " int r = blockIdx.x; float s = 0;"
        " for (int c = threadIdx.x; c < cols; c += blockDim.x) s += in[r * cols + c];"
        " for (int o = 16; o; o /= 2) s += __shfl_down_sync(~0u, s, o);"
        " if (threadIdx.x == 0) out[r] = s; }"
    )

    assert plan.axes == ("rows", "cols")
    assert [p.guess for p in plan.function.parameters[:2]] == ["[rows, cols]", "[rows]"]


FLAT = """
__global__ void __launch_bounds__(128) twice(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}
"""


def test_a_kernel_without_a_launch_gets_no_grid_and_says_what_it_uses():
    flat, rows = plan_only_function(FLAT), plan_only_function(ROWS)

    assert (flat.configuration, rows.configuration) == ((), ())
    assert flat.launch_hint == (
        "line 2: no launch is in sight; it uses blockDim.x, blockIdx.x, threadIdx.x, "
        "__launch_bounds__(128)"
    )
    assert rows.launch_hint == (
        "line 2: no launch is in sight; it uses blockDim.x, blockIdx.x, threadIdx.x"
    )


def test_a_launcher_has_the_shapes_of_the_kernel_that_it_starts():
    text = ROWS + (
        "void softmax(const float* in, float* out, int n, cudaStream_t s) {"
        " row_softmax<<<1, 256, 0, s>>>(in, out, n); }"
    )
    plan = plan_only_function(text)

    assert plan.function.name == "softmax"
    assert plan.configuration == ()
    assert [p.role for p in plan.function.parameters] == ["input", "output", "size", "stream"]


@pytest.mark.parametrize(
    ("name", "text", "kind", "functions"),
    [
        (
            "k.cu",
            "void f(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {}\n"
            "TVM_FFI_DLL_EXPORT_TYPED_FUNC(scale, f);",
            "tvm-ffi",
            ["f"],
        ),
        (
            "k.cpp",
            "at::Tensor twice(const at::Tensor& x, double s) { return x * s; }\n"
            'TORCH_LIBRARY(mine, m) { m.def("twice(Tensor x, float s) -> Tensor"); }\n'
            'TORCH_LIBRARY_IMPL(mine, CPU, m) { m.impl("twice", &twice); }',
            "torch-extension",
            ["twice"],
        ),
        (
            "k.py",
            'import cupy\nk = cupy.RawKernel(r"""extern "C" __global__ void add(float* x, int n) {'
            ' int i = threadIdx.x; if (i < n) x[i] = 1; }""", "add")',
            "embedded",
            ["add"],
        ),
        (
            "k.py",
            "import cutlass.cute as cute\n@cute.kernel\ndef k(a): pass\n"
            "@cute.jit\ndef run(a, b):\n    k(a).launch(grid=(1, 1, 1), block=(1, 1, 1))\n",
            "cute",
            ["run"],
        ),
        (
            "k.py",
            "import triton\n@triton.autotune(configs=[], key=[])\n@triton.jit\ndef k(x): pass\n"
            "def run(x):\n    bound = k.warmup(x, grid=(1,))\n    bound[(1,)](x)\n",
            "triton",
            ["run"],
        ),
        (
            "k.py",
            "import triton\ndef k(x): pass\nk = triton.jit(k)\n"
            "def count_programs(x):\n    k.warmup(x, grid=(1,))\n"
            "def test_add(x):\n    k[(1,)](x)\n"
            "def add_backward(x):\n    k[(1,)](x)\n"
            "def add(x):\n    k[(1,)](x)\n",
            "triton",
            ["add", "add_backward"],
        ),
        (
            "k.py",
            "import triton\nfrom ops import kernel\n"
            "class Add(torch.autograd.Function):\n    @staticmethod\n"
            "    def forward(ctx, *args):\n        return Add.__forward(ctx, *args)\n"
            "    @staticmethod\n    def __forward(ctx, x: torch.Tensor, y: torch.Tensor):\n"
            "        out = torch.empty_like(x)\n        kernel.Add.forward[(1,)](x, y, out)\n"
            "        return out\n",
            "triton",
            ["Add"],
        ),
    ],
)
def test_every_kind_of_source_is_recognised(name, text, kind, functions):
    summary = summarize_source(name, text)

    assert summary.kind == kind
    assert [one.name for one in summary.functions] == functions


def test_headers_are_found_by_the_build_or_by_their_path(tmp_path):
    for path in ("lib/deep/util.h", "other/include/pack/types.h", "src/k.cu"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("")
    source = tmp_path / "src" / "k.cu"
    source.write_text('#include "deep/util.h"\n#include <pack/types.h>\n#include <string.h>\n')
    files = sorted(tmp_path.glob("**/*.h"))
    searched = plan_includes(source, tmp_path, files)
    entry = {"directory": str(tmp_path), "file": "src/k.cu", "command": "nvcc -Ilib -DFAST=1 -c k"}
    (tmp_path / "compile_commands.json").write_text(json.dumps([entry]))
    built = plan_includes(source, tmp_path, files)

    assert set(searched.folders) == {tmp_path / "lib", tmp_path / "other" / "include"}
    assert set(built.folders) == set(searched.folders)
    assert built.flags == ("-DFAST=1",)


@pytest.mark.parametrize(
    ("code", "flags"),
    [
        (
            "constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }",
            ["--expt-relaxed-constexpr"],
        ),
        ("float x = std::numeric_limits<float>::max();", ["--expt-relaxed-constexpr"]),
        ("auto add = [=] __device__(float a) { return a; };", ["--extended-lambda"]),
        ("constexpr int kSize = f(3); __device__ float table[3];", []),
    ],
)
def test_code_of_a_header_that_needs_an_option_of_nvcc_gets_it(tmp_path, code, flags):
    (tmp_path / "k.cu").write_text('#include "util.cuh"\n')
    (tmp_path / "util.cuh").write_text(code)

    plan = plan_includes(tmp_path / "k.cu", tmp_path, [tmp_path / "util.cuh"])

    assert list(plan.flags) == flags


TORCH_HALF = "#include <torch/extension.h>\n"
HALF_FLAGS = [
    f"-U__CUDA_NO_{name}__"
    for name in ("HALF_OPERATORS", "HALF_CONVERSIONS", "HALF2_OPERATORS", "BFLOAT16_CONVERSIONS")
]


@pytest.mark.parametrize(
    ("code", "flags"),
    [
        ("__device__ half f(half a, half b) { return a * b; }", HALF_FLAGS),
        ("__global__ void f(const __half* x, __half* y) { y[0] = x[0] + x[1]; }", HALF_FLAGS),
        ("__global__ void f(half* x, half* y, int i) { g(x + i, y + i); }", []),
        ("__device__ half f(half a, half b) { return __hmul(a, b); }", []),
        ("using T = at::Half; __device__ half f(half a, half b) { return a * b; }", []),
    ],
)
def test_a_torch_extension_that_calculates_by_operators_of_half_gets_them(tmp_path, code, flags):
    (tmp_path / "k.cu").write_text(TORCH_HALF + code)
    (tmp_path / "plain.cu").write_text(code)
    plans = [plan_includes(tmp_path / name, tmp_path, []) for name in ("k.cu", "plain.cu")]

    assert [list(plan.flags) for plan in plans] == [flags, []]


@pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
def test_the_operators_of_half_are_those_that_torch_switches_off(tmp_path):
    code = "#include <cuda_fp16.h>\n__global__ void f(half* x) { x[0] = x[0] * x[1]; }\n"
    (tmp_path / "k.cu").write_text(code)
    off = [flag.replace("-U", "-D") for flag in HALF_FLAGS]
    command = ["nvcc", "-ptx", "k.cu", "-o", "k.ptx", *off]
    codes = [
        subprocess.run([*command, *more], cwd=tmp_path, capture_output=True, check=False).returncode
        for more in ([], HALF_FLAGS)
    ]

    assert (codes[0] != 0, codes[1]) == (True, 0)


def test_options_that_a_python_file_has_torch_compile_a_source_with_are_taken(tmp_path):
    (tmp_path / "k.cu").write_text("__global__ void k(float* x) {}\n")
    (tmp_path / "other.cu").write_text("__global__ void k(float* x) {}\n")
    (tmp_path / "run.py").write_text(
        "from torch.utils.cpp_extension import load\n"
        'load("k", sources=["k.cu"], extra_cuda_cflags=["-O3", "-U__CUDA_NO_HALF_OPERATORS__"])\n'
    )
    plans = [plan_includes(tmp_path / name, tmp_path, []) for name in ("k.cu", "other.cu")]

    assert [plan.flags for plan in plans] == [("-U__CUDA_NO_HALF_OPERATORS__",), ()]


def test_a_shape_that_the_text_does_not_show_is_asked_for_beside_its_line(project):
    (project / "mix.cu").write_text(
        "__device__ int place(int row, int col);\n"
        "__global__ void mix(const float* x, float* y, int rows, int cols) {\n"
        "  int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;\n"
        "  if (col < cols && row < rows) y[row * cols + col] = x[place(row, col)];\n}\n"
        "void run(float* a, float* b, int m, int n) {\n  cudaMalloc(&a, 4);\n"
        "  mix<<<dim3((n + 255) / 256, m), 256>>>(a, b, m, n);\n}\n"
    )
    result = init_project("mix.cu", kernel="mix")

    text = (project / "kernels/mix/kernel.yaml").read_text()

    assert result.to_fill[0] == "x=?  # line 4: y[row * cols + col] = x[place(row, col)];"
    assert len(result.to_fill) == 2
    assert "{name: x, shape: [FILL_IN], dtype: float32, fill: normal}  # line 4: y[" in text
    assert "name: y, shape: [rows, cols], dtype: float32}  # from the text" in text


def test_what_the_text_does_not_show_of_a_tensor_is_asked_for_beside_its_line(project):
    (project / "norm.py").write_text(
        "import triton\nimport triton.language as tl\n\n\n@triton.jit\n"
        "def _norm(x, w, y, n, BLOCK: tl.constexpr):\n    pass\n\n\n"
        "def norm(x: torch.Tensor, w: torch.Tensor):\n    m, n = x.shape\n"
        "    y = torch.empty_like(x)\n"
        "    _norm[(m,)](x, w, y, n, BLOCK=1024)\n    return y\n"
    )
    result = init_project("norm.py", kernel="norm")

    text = (project / "kernels/norm/kernel.yaml").read_text()

    assert result.to_fill[:2] == (
        "w=?  # line 10: def norm(x: torch.Tensor, w: torch.Tensor):",
        "dtype=float16  # or bfloat16, float32, float64; of x, w, y",
    )
    assert "name: x, shape: [m, n], dtype: FILL_IN" in text
    assert "name: w, shape: [FILL_IN], dtype: FILL_IN" in text


def test_an_option_of_a_tensor_function_is_asked_for_beside_its_line(project):
    (project / "pool.cpp").write_text(
        "#include <torch/extension.h>\n"
        "at::Tensor pool(at::Tensor x, int64_t width, double eps = 1e-5) {\n"
        "  auto m = x.size(0), n = x.size(1);\n  return x.unfold(1, width, 1).sum(-1) + eps;\n}\n"
    )
    result = init_project("pool.cpp", kernel="pool", target="cpu")
    launcher = (project / "kernels/pool/launch.cpp").read_text()

    assert "// width is not known, line 2: at::Tensor pool(" in launcher
    assert "pool(x, FILL_IN, 1e-5)" in launcher
    assert (
        "# Assumed: eps = 1e-5 (its default)." in (project / "kernels/pool/kernel.yaml").read_text()
    )
    assert any(mark.startswith("width=?  # line 2: ") for mark in result.to_fill)
