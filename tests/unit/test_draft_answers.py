"""What kb init takes from a source, what it asks for, and how an answer fills it in."""

import ast
import math
import re
import shutil
import subprocess

import pytest

from kernelkb.actions.init.init_project import init_project
from kernelkb.actions.init.init_source import summarize_source
from kernelkb.cli import main
from kernelkb.errors import BadValueError
from kernelkb.loading.kernels import load_kernel
from kernelkb.safety.untrusted_text import is_torch_expression
from kernelkb.scaffold.cpp.build_flags import plan_includes
from kernelkb.scaffold.cpp.call_plan import plan_call
from kernelkb.scaffold.cpp.functions import build_function, read_facts

GATED = """\
import torch
import triton
import triton.language as tl


@triton.jit
def _gate(e, g, h, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row = tl.load(e + at, mask=at < n)
    tl.store(h + at, row * tl.load(g + at, mask=at < n), mask=at < n)


def gate(e, g, scale, shift):
    batch, seq, width = e.shape
    h = torch.empty((batch, seq, width), dtype=e.dtype, device=e.device)
    _gate[(1,)](e, g, h, e.numel(), BLOCK=1024)
    return h


class Gate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, e, g, scale, shift=0.0):
        return gate(e, g, scale, shift)
"""
SCALE = """\
__global__ void scale_kernel(float* x, float* mean, float* y, int groups, int width) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= groups * width) return;
  y[i] = x[i] / mean[(i / width) % groups];
}
"""


def read_roles(text, name="k.cu"):
    """Return role, certainty and shape of each array of the first function of a source."""
    function = summarize_source(name, text).functions[0]
    if function.style == "pointers":
        function = plan_call(function, read_facts(text)).function
    arrays = [p for p in function.parameters if p.role in ("input", "output")]
    return {p.name: (p.role, p.is_certain, p.shape) for p in arrays}


def list_marks(folder):
    return sum("FILL_IN" in re.sub(r"#.*|//.*", "", f.read_text()) for f in folder.glob("[kl]*.*"))


def test_an_answer_fills_in_what_was_asked_and_stays_with_the_next_one(project):
    (project / "gate.py").write_text(GATED)
    asked = init_project("gate.py", kernel="gate")
    first = init_project("gate.py", kernel="gate", answers=["g=[batch, seq, width]", "scale=2.0"])
    last = init_project("gate.py", kernel="gate", answers=["dtype", "reference=e * g"])
    kernel = load_kernel(str(project / "kernels/gate")).kernel

    assert [line.partition("  #")[0] for line in asked.to_fill] == [
        "g=[batch, seq, width]",
        "dtype=float16",
        "scale=?",
        "reference=mine",
    ]
    assert [line.partition("=")[0] for line in first.to_fill] == ["dtype", "reference"]
    assert (last.to_fill, last.next) == ((), "kb bench gate")
    assert [(a.shape, a.dtype) for a in kernel.inputs] == [
        (("batch", "seq", "width"), "float16")
    ] * 2
    assert "return e * g" in (project / "kernels/gate/reference.py").read_text()
    assert "gate(e, g, 2.0, 0.0)" in (project / "kernels/gate/launch.py").read_text()


def test_where_a_value_is_from_stands_beside_it(project):
    (project / "gate.py").write_text(GATED)
    init_project("gate.py", kernel="gate", answers=["g=[batch, seq, width]", "dtype=float16"])
    text = (project / "kernels/gate/kernel.yaml").read_text()

    assert "# Assumed: shift = 0.0 (the caller's default, line 22).\n" in text
    assert "# Said: g=[batch, seq, width]\n" in text
    assert "dtype: float16, fill: normal}  # shape said; fill assumed\n" in text


def test_a_draft_that_was_changed_by_hand_takes_no_answers(project):
    (project / "k.cu").write_text(SCALE)
    init_project("k.cu")
    yaml = project / "kernels/k/kernel.yaml"
    yaml.write_text(yaml.read_text() + "# mine\n")

    with pytest.raises(BadValueError, match="was changed since kb init drafted it"):
        init_project("k.cu", answers=["reference=mine"])
    assert yaml.read_text().endswith("# mine\n")


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("nothing=3", "there is no such name; asked for: x"),
        ("x.role=mixed", "one of input, output, both"),
        ("x.dtype=float12", "one of float64"),
        ("x=[rows % 2]", "is no shape"),
        ("grid", "is no answer"),
        ("reference=open(x)", "no expression of torch"),
        ("reference=torch.einsum('ij->ji', x)", "(words only as reduction='none' "),
        ("reference=torch.load(x)", "no expression of torch"),
    ],
)
def test_an_answer_that_cannot_be_is_refused_and_nothing_is_written(project, answer, says):
    (project / "k.cu").write_text(SCALE)

    with pytest.raises(BadValueError, match=re.escape(says)):
        init_project("k.cu", answers=[answer])
    assert not (project / "kernels").exists()


@pytest.mark.parametrize(
    ("text", "is_plain"),
    [
        ("torch.softmax(x, -1)", True),
        ("x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * w", True),
        ("torch.nn.functional.silu(x)[:, 1:]", True),
        ("torch.nn.functional.nll_loss(x, w, reduction='none')", True),
        ("x.sum(mode='/etc/hosts')", False),
        ("x.numpy().tofile(file='sums')", False),
        ("x.numpy().tofile('sums')", False),
        ("torch.hub.load(x, w)", False),
        ("torch.ops.load_library(x)", False),
        ("torch.load('f')", False),
        ("x.__class__", False),
        ("eval(x)", False),
        ("[x for x in w]", False),
        ("(lambda: x)()", False),
        ("x +", False),
    ],
)
def test_an_expression_of_torch_reads_no_file_and_calls_nothing_else(text, is_plain):
    assert is_torch_expression(text, ["x", "w"]) is is_plain


def test_no_two_axes_have_one_size_and_a_multiple_that_the_source_checks_is_kept(project):
    (project / "k.cpp").write_text(
        "#include <torch/extension.h>\n"
        "at::Tensor pick(const at::Tensor& x, const at::Tensor& w) {\n"
        "  int rows = x.size(0), heads = x.size(1), groups = w.size(0);\n"
        "  TORCH_CHECK(x.dim() == 2 && heads % groups == 0);\n  TORCH_CHECK(w.dim() == 1);\n"
        "  return torch::empty({rows, heads}, x.options());\n}\n"
    )
    init_project("k.cpp", target="cpu")
    text = (project / "kernels/k/kernel.yaml").read_text()
    sizes = dict(re.findall(r"(\w+): (\d+)", re.search(r"large: \{(.*)\}", text)[1]))

    assert set(sizes) == {"rows", "heads", "groups"}
    assert len(set(sizes.values())) == 3
    assert int(sizes["heads"]) % int(sizes["groups"]) == 0


@pytest.mark.parametrize(
    ("check", "most"),
    [("assert(n <= 512);", 512), ("TORCH_CHECK(ready && n <= 128, 1);", 128), ("", 12_582_912)],
)
def test_no_size_is_larger_than_the_source_lets_pass(project, check, most):
    (project / "k.cu").write_text(
        "__global__ void k(const float* x, float* y, int n) {"
        " int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = x[i]; }\n"
        f"void run(const float* x, float* y, int n) {{ {check}"
        " k<<<(n + 63) / 64, 64>>>(x, y, n); }\n"
    )
    init_project("k.cu", kernel="run", name="k")
    large = re.search(r"large: \{n: (\d+)\}", (project / "kernels/k/kernel.yaml").read_text())

    assert int(large[1]) == most


def test_arrays_that_a_launcher_passes_on_have_the_roles_and_sizes_of_the_kernel():
    text = SCALE + (
        "void scale(float* x, float* mean, float* y, int groups, int width) {\n"
        "  scale_kernel<<<(groups * width + 255) / 256, 256>>>(x, mean, y, groups, width);\n}\n"
    )

    assert read_roles(text) == {
        "x": ("input", True, ()),
        "mean": ("input", True, ("groups",)),
        "y": ("output", True, ()),
    }


def test_a_pointer_that_goes_to_unknown_code_may_be_an_input_or_an_output():
    text = (
        "__global__ void twice(float* x, float* y, int n) { int i = threadIdx.x;"
        " if (i < n) y[i] = 2 * x[i]; }\n"
        "void run(float* x, float* y, float* z, int n) { twice<<<1, n>>>(x, y, n); note(z); }\n"
    )
    roles = read_roles(text)

    assert roles["x"][:2] == ("input", True)
    assert roles["z"][1] is False


@pytest.mark.parametrize(
    ("body", "shape"),
    [
        ("if (i < n) y[i] = x[i];", ("n",)),
        ("if (n <= i) return; y[i] = x[i];", ("n",)),
        ("if (i <= n) y[i] = x[i];", ()),
        ("if (i < n / 4) y[i] = ((float4*)x)[i].x;", ()),
        ("if (i < n) y[i] = x[i + 1];", ()),
        ("if (i < n) y[i] = x[i * m];", ("n", "m")),
        ("if (i < n) y[i] = x[place(i)];", ()),
        ("y[i % n] = x[i % n];", ("n",)),
        ("if (i >= 0 && i < n) y[i] = x[i];", ("n",)),
        ("if (i < n / 4) y[i] = reinterpret_cast<const float4*>(x + 4 * i)[0].x;", ()),
        ("if (i < n * m) y[i] = x[i]; if (i < n) y[i] = 0;", ()),
    ],
)
def test_a_shape_is_known_only_where_every_subscript_stays_below_it(body, shape):
    text = (
        "__global__ void k(const float* x, float* y, int n, int m) {"
        f" int i = blockIdx.x * blockDim.x + threadIdx.x; {body} }}"
    )

    assert read_roles(text)["x"][2] == shape


def test_reads_through_a_macro_that_casts_and_checks_in_a_macro_are_seen():
    text = """
#include <torch/extension.h>
#define HALF2(value) (reinterpret_cast<half2 *>(&(value))[0])
#define CHECK_SHAPE(T, S0, S1) \\
  if (((T).size(0) != (S0)) || ((T).size(1) != (S1))) throw std::runtime_error("size");
__global__ void gemv_kernel(half* a, half* x, half* y, int M, int K) {
  int m = blockIdx.x * blockDim.y + threadIdx.y;
  if (m >= M) return;
  for (int k = 2 * threadIdx.x; k < K; k += 64) { half2 p = HALF2(x[k]), q = HALF2(a[m * K + k]); }
  if (threadIdx.x == 0) y[m] = 0;
}
void gemv(torch::Tensor a, torch::Tensor x, torch::Tensor y) {
  const int M = a.size(0), K = a.size(1);
  CHECK_SHAPE(a, M, K) CHECK_SHAPE(x, K, 1) CHECK_SHAPE(y, M, 1)
  gemv_kernel<<<M, 32>>>(reinterpret_cast<half*>(a.data_ptr()),
      reinterpret_cast<half*>(x.data_ptr()), reinterpret_cast<half*>(y.data_ptr()), M, K);
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("gemv", &gemv); }
"""

    assert read_roles(text) == {
        "a": ("input", True, ("M", "K")),
        "x": ("input", True, ("K", "1")),
        "y": ("output", True, ("M", "1")),
    }


def test_a_store_through_a_macro_that_casts_makes_an_output():
    text = (
        "#define FLOAT4(value) (reinterpret_cast<float4 *>(&(value))[0])\n"
        "__global__ void k(float* x, float* y, int n) {"
        " int i = 4 * threadIdx.x; if (i < n) FLOAT4(y[i]) = FLOAT4(x[i]); }"
    )

    assert {name: role for name, (role, _, _) in read_roles(text).items()} == {
        "x": "input",
        "y": "output",
    }


BOTH = "M, N = x.shape\n    K, L = w.shape\n    "


@pytest.mark.parametrize(
    ("head", "shape"),
    [
        ("B, T, H = x.shape", ("B", "T", "H")),
        ("B, T, V = *x.shape[:2], x.shape[-1]", ()),
        ("_, T = x.shape", ()),
        ("T = x.shape[-1]", ()),
        ("assert x.ndim == 2\n    M, N = x.shape[0], x.shape[1]", ("M", "N")),
        ("B, T, V = *w.shape, x.shape[-1]\n    assert x.shape == (B, V)", ("B", "V")),
        ("x = x.transpose(0, 1)\n    M, N = x.shape", ()),
        (f"{BOTH}assert M > 1 and w.shape[0] == x.shape[1]", ("M", "K")),
        (f"{BOTH}if K != x.shape[1]:\n        raise ValueError", ("M", "K")),
        (f"{BOTH}assert K == N or N == 1", ("M", "N")),
    ],
)
def test_a_tensor_has_the_shape_that_its_function_takes_apart(head, shape):
    text = (
        "import torch\nimport triton\nimport triton.language as tl\n\n\n@triton.jit\n"
        "def _k(x, y):\n    tl.store(y, tl.load(x))\n\n\n"
        f"def run(x: torch.Tensor, w: torch.Tensor):\n    {head}\n"
        "    y = torch.empty_like(x)\n    _k[(1,)](x, y)\n    return y\n"
    )

    assert read_roles(text, "k.py")["x"][2] == shape


def test_a_function_that_is_defined_in_a_namespace_is_called_with_it(project):
    (project / "k.cu").write_text(
        "namespace ops {\nvoid twice(const float* x, float* y, int n);\n}\n"
        "__global__ void k(const float* x, float* y, int n) { int i = threadIdx.x;"
        " if (i < n) y[i] = 2 * x[i]; }\n"
        "void ops::twice(const float* x, float* y, int n) { k<<<1, 32>>>(x, y, n); }\n"
    )
    result = init_project("k.cu")

    assert "  ops::twice(const_cast" in (project / "kernels/k/launch.cu").read_text()
    assert [line.partition("=")[0] for line in result.to_fill] == ["reference"]


def test_a_file_that_instantiates_a_launcher_of_its_header_is_drafted(project):
    (project / "scan.cuh").write_text(
        "template <typename T> __global__ void scan_kernel(const T* x, T* y, int n) {"
        " int i = threadIdx.x; if (i < n) y[i] = x[i]; }\n"
        "template <typename T> void scan(const T* x, T* y, int n, cudaStream_t s) {"
        " scan_kernel<T><<<1, 256, 0, s>>>(x, y, n); }\n"
    )
    (project / "scan.cu").write_text(
        '#include "scan.cuh"\ntemplate void scan<float>(const float*, float*, int, cudaStream_t);\n'
    )
    init_project("scan.cu", answers=["reference"])
    folder = project / "kernels/scan"

    assert "scan<float>(const_cast<float*>(x), y," in (folder / "launch.cu").read_text()
    assert load_kernel(str(folder)).kernel.outputs[0].dtype == "float32"


@pytest.mark.parametrize(
    ("name", "text", "flags"),
    [
        (
            "Makefile",
            "STD = c++20\nNVCCFLAGS += -std=$(STD) -DBLOCK=256 -DUNUSED=1\nifeq ($(GPU), 1)\n"
            "NVCCFLAGS += -DGPU -DOTHER\nendif\n%.o: %.cu\n\tnvcc $(NVCCFLAGS) -c $<\n",
            ("-std=c++20", "-DBLOCK=256", "-DGPU"),
        ),
        (
            "CMakeLists.txt",
            "set(CMAKE_CUDA_STANDARD 20)\nadd_compile_definitions(BLOCK=256)\n",
            ("-DBLOCK=256", "-std=c++20"),
        ),
        (
            "CMakeLists.txt",
            "if (CMAKE_BUILD_TYPE STREQUAL Debug)\n  add_definitions(-DOTHER)\n"
            '  add_compile_definitions(BLOCK=9)\n  set(F "--use_fast_math -std=c++20")\n'
            "endif()\nif(USE_CUDA)\n  add_definitions(-DWITH_GPU -DGPU)\nendif()\n",
            ("-std=c++20", "-DGPU"),
        ),
        (
            "justfile",
            'build:\n    nvcc -std=c++20 "-DBLOCK=256" k.cu\n',
            ("-std=c++20", "-DBLOCK=256"),
        ),
        (
            "BUILD.bazel",
            'copts = ["-std=c++20"],\ndefines = ["BLOCK=256"]\n',
            ("-std=c++20", "-DBLOCK=256"),
        ),
        (
            "pyproject.toml",
            'extra = ["-std=c++20", "-DBLOCK=256"]\n',
            ("-std=c++20", "-DBLOCK=256"),
        ),
    ],
)
def test_flags_are_those_of_the_projects_build_that_the_source_needs(tmp_path, name, text, flags):
    (tmp_path / "k.cu").write_text("#ifdef GPU\nint x[BLOCK];\n#ifdef OTHER\n#endif\n#endif\n")
    (tmp_path / name).write_text(text)

    assert plan_includes(tmp_path / "k.cu", tmp_path, []).flags == flags


def test_a_missing_header_of_a_submodule_is_named_with_the_command_that_brings_it(project):
    (project / ".gitmodules").write_text('[submodule "glm"]\n\tpath = third_party/glm\n')
    (project / "k.cu").write_text("#include <glm/glm.hpp>\n" + SCALE)
    result = init_project("k.cu")

    assert result.warnings[0].endswith(": git submodule update --init third_party/glm")


def test_every_mark_of_a_draft_is_asked_for(project):
    (project / "gate.py").write_text(GATED)
    (project / "k.cu").write_text(SCALE)
    for source, kernel in (("gate.py", "gate"), ("k.cu", None)):
        asked = init_project(source, kernel=kernel)
        words = [line.partition("  #")[0].replace("?", "8") for line in asked.to_fill]
        result = init_project(source, kernel=kernel, answers=words)

        assert result.to_fill == ()
        assert list_marks(project / "kernels" / result.kernel) == 0


def test_a_finished_draft_of_cuda_is_run_under_compute_sanitizer_first(project):
    (project / "k.cu").write_text(SCALE)
    words = ["x=[groups, width]", "mean=[groups]", "y=[groups, width]", "grid=64", "block=256"]
    made = init_project("k.cu", answers=[*words, "reference=x / mean[:, None]"])

    assert (made.to_fill, made.next) == ((), "kb bench k --sanitize")


@pytest.mark.parametrize(
    ("returned", "shape"),
    [
        ("y", ("m", "n")),
        ("y.view(*shape)", ("m", "n")),
        ("torch.sum(y)", ()),
        ("y.sum(-1)", ()),
        ("y[:, 0]", ()),
    ],
)
def test_a_returned_tensor_has_the_shape_that_it_was_made_with_only_as_it_is(returned, shape):
    text = (
        "import torch\nimport triton\nimport triton.language as tl\n\n\n@triton.jit\n"
        "def _k(x, y):\n    tl.store(y, tl.load(x))\n\n\n"
        "def run(x: torch.Tensor):\n    m, n = x.shape\n    y = torch.empty((m, n))\n"
        f"    _k[(1,)](x, y)\n    return {returned}\n"
    )
    output = summarize_source("k.py", text).functions[0].parameters[-1]

    assert (output.role, output.shape) == ("output", shape)


PARAMETERS = """
template <typename T>
struct Params {
  int batch, seqlen;
  float scale = 1.f;
  const T *__restrict__ x;  // [batch, seqlen]
  T* y;
  T* unread;
  int64_t stride;
};
"""
TAKES_STRUCTURE = """
#include "params.h"
template <typename T>
__global__ void twice(
    const Params<T> p) {
  extern __shared__ float tile[];
  int i = blockIdx.x * blockDim.x + threadIdx.x, stride = 2;
  if (i < p.batch) p.y[i] = stride * p.x[i] * p.scale;
}
void launch(Params<float>& params, cudaStream_t stream) {
  auto kernel = &twice<float>;
  int bytes = 100 * 1024;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  kernel<<<(params.batch + 255) / 256, 256, bytes, stream>>>(params);
}
"""


def test_the_fields_of_a_structure_are_arguments_and_its_launch_is_found(project):
    (project / "params.h").write_text(PARAMETERS)
    (project / "k.cu").write_text(TAKES_STRUCTURE)
    asked = init_project("k.cu")
    result = init_project("k.cu", answers=["scale=2.0f", "reference"])
    launcher = (project / "kernels/k/launch.cu").read_text()
    arrays = load_kernel(str(project / "kernels/k")).kernel

    assert [line.partition("=")[0] for line in asked.to_fill] == ["scale", "reference"]
    assert [(a.name, a.shape, a.dtype) for a in (*arrays.inputs, *arrays.outputs)] == [
        ("x", ("batch",), "float32"),
        ("y", ("batch",), "float32"),
    ]
    assert result.to_fill == ()
    assert "Params<float> kb_p{};\n  kb_p.batch = static_cast<int>(batch);" in launcher
    assert "kb_p.x = const_cast<float*>(x);" in launcher
    assert "float* const unread = nullptr;  // the kernel does not read it" in launcher
    assert "kb_p.stride = p_stride;" in launcher
    assert "<<<(batch + 255) / 256, 256, bytes, " in launcher


def test_a_launcher_asks_for_the_shared_memory_that_the_host_asks_for(project):
    (project / "params.h").write_text(PARAMETERS)
    (project / "k.cu").write_text(TAKES_STRUCTURE)
    init_project("k.cu")
    launcher = (project / "kernels/k/launch.cu").read_text()

    limit = "cudaFuncAttributeMaxDynamicSharedMemorySize"
    assert (
        f"  int bytes = 100 * 1024;\n  cudaFuncSetAttribute(twice<float>, {limit}, bytes);\n"
        in (launcher)
    )


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_a_launcher_that_fills_a_structure_and_constant_memory_compiles(project):
    (project / "params.h").write_text(PARAMETERS + "__constant__ float gains[4];\n")
    (project / "k.cu").write_text(TAKES_STRUCTURE.replace("* p.scale", "* p.scale * gains[i % 4]"))
    words = ["scale=2.0f", "gains={1, 2, 3, 4}", "x=[batch]", "y=[batch]", "reference"]
    made = init_project("k.cu", answers=words)
    folder = project / "kernels/k"
    done = subprocess.run(
        ["nvcc", "-c", "launch.cu", "-o", "k.o"], cwd=folder, capture_output=True, text=True
    )

    assert made.to_fill == ()
    assert done.returncode == 0, done.stderr


def test_a_block_that_a_branch_decides_is_asked_for(project):
    (project / "k.cu").write_text(
        SCALE + "void run(float* x, float* m, float* y, int groups, int width) {\n"
        "  dim3 block;\n  if (width < 64) block.x = 32; else block.x = 64;\n"
        "  scale_kernel<<<groups, block>>>(x, m, y, groups, width);\n}\n"
        "int main() { }\n"
    )
    plan = plan_call(
        summarize_source("k.cu", (project / "k.cu").read_text()).functions[0]._replace(),
        read_facts((project / "k.cu").read_text()),
    )
    kernel = plan.function._replace(name="scale_kernel", is_kernel=True, line=1)
    made = plan_call(kernel, read_facts((project / "k.cu").read_text()))

    assert made.configuration == ()
    assert [q.key for q in made.questions][:2] == ["grid", "block"]


def test_a_block_of_the_other_scope_is_not_that_of_a_launch():
    text = SCALE + (
        "void run(float* x, float* m, float* y, int groups, int width) {\n"
        "  { dim3 block(1); other(block); }\n"
        "  {\n    dim3 block(64);\n"
        "    scale_kernel<<<groups, block>>>(x, m, y, groups, width);\n  }\n}\n"
    )
    facts = read_facts(text)
    own = facts.declarations[0]

    assert plan_call(build_function(own), facts).statements == ("dim3 block(64);",)


def test_an_array_that_is_cast_to_vectors_on_the_way_has_no_shape_or_dtype_of_them():
    text = (
        "__global__ void k(float4* x, int n) { int i = threadIdx.x; if (i < n) x[i].x = 0; }\n"
        "void run(half* x, void* y, int n) {\n"
        "  k<<<1, 32>>>(reinterpret_cast<float4*>(x), n);\n"
        "  k<<<1, 32>>>(reinterpret_cast<float4*>(y), n);\n}\n"
    )
    function = summarize_source("k.cu", text).functions[0]
    arrays = plan_call(function, read_facts(text)).function.parameters[:2]

    assert [(a.dtype, a.shape) for a in arrays] == [("float16", ()), (None, ())]


def test_a_pointer_that_the_launcher_reads_is_memory_of_the_host(project):
    (project / "k.cu").write_text(
        "__global__ void k(float a, const float* x, float* y, int n) { int i = threadIdx.x;"
        " if (i < n) y[i] = a * x[i]; }\n"
        "void run(const float* alpha, const float* x, float* y, int n) {"
        " k<<<1, 32>>>(*alpha, x, y, n); }\n"
    )
    init_project("k.cu", answers=["alpha=0.5f", "reference"])
    folder = project / "kernels/k"

    assert "static float alpha[] = {float(0.5f)};" in (folder / "launch.cu").read_text()
    assert [a.name for a in load_kernel(str(folder)).kernel.inputs] == ["x"]


def test_constant_memory_and_macros_of_the_build_are_asked_for(project):
    (project / "k.cu").write_text(
        "__constant__ float gains[4];\n"
        "__global__ void k(const float* x, float* y, int n) {\n"
        "  __shared__ float tile[TILE];\n  int i = threadIdx.x;\n"
        "  if (i < n) y[i] = x[i] * gains[i % 4];\n}\n"
        "void run(const float* x, float* y, int n) { k<<<1, 32>>>(x, y, n); }\n"
    )
    asked = init_project("k.cu", kernel="k", name="k")
    (project / "k.cu").write_text((project / "k.cu").read_text().replace("void run", "//"))
    kernel = init_project("k.cu", name="bare")

    assert "TILE=?  # a macro that the build defines" in asked.to_fill
    assert 'flags: ["-DTILE=FILL_IN"]' in (project / "kernels/k/kernel.yaml").read_text()
    assert "gains=?  # line 1: __constant__ float gains[4];" in kernel.to_fill
    init_project("k.cu", name="bare", answers=["gains=[1, 2, 3, 4]"])
    assert "kb_gains[] = {1, 2, 3, 4};" in (project / "kernels/bare/launch.cu").read_text()


def test_of_two_functions_of_one_name_that_which_launches_is_read():
    text = (
        "#ifdef USE_CUDA\n" + SCALE + "void scale(float* x, float* m, float* y, int g, int w) {\n"
        "  scale_kernel<<<g, w>>>(x, m, y, g, w);\n}\n#else\n"
        "void scale(float* x, float* m, float* y, int g, int w) { y[0] = m[0] = x[0]; }\n#endif\n"
    )
    launcher = summarize_source("k.cu", text).functions[0]

    assert (launcher.name, launcher.line) == ("scale", 7)


def test_what_is_passed_behind_a_star_may_be_an_input_or_an_output():
    text = (
        "import torch\nimport triton\nimport triton.language as tl\n\n\n@triton.jit\n"
        "def _k(x, stride, y):\n    tl.store(y, tl.load(x))\n\n\n"
        "def run(x: torch.Tensor, y: torch.Tensor):\n    _k[(1,)](x, *x.stride(), y)\n"
    )
    roles = read_roles(text, "k.py")

    assert [roles[name][1] for name in ("x", "y")] == [True, False]


def test_a_number_that_is_a_size_of_a_tensor_is_read_there(project):
    (project / "k.cpp").write_text(
        "#include <torch/extension.h>\n"
        "void pick(const at::Tensor x, const int64_t rows, at::Tensor outputs) { outputs.sum(); }\n"
        'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("pick", &pick); }\n'
    )
    asked = init_project("k.cpp", target="cpu")
    init_project("k.cpp", target="cpu", answers=["x=[rows, 8]"])

    assert any(line.startswith("rows=axis  # a guess") for line in asked.to_fill)
    assert "--set 'outputs=?'" in asked.say
    assert "pick(x, x.size(0), outputs)" in (project / "kernels/k/launch.cpp").read_text()


def test_a_template_without_names_is_read():
    text = "template <typename> struct A;\ntemplate <typename, int = 3>\nvoid f();\n" + SCALE

    assert summarize_source("k.cu", text).functions[0].name == "scale_kernel"


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="says why there is no run")
def test_a_finished_draft_that_was_not_run_says_so(project, capsys):
    (project / "k.cu").write_text(SCALE)
    words = ["x=[groups, width]", "mean=[groups]", "y=[groups, width]", "grid=64", "block=256"]
    given = [word for each in [*words, "reference=mine"] for word in ("--set", each)]
    status = main(["init", "k.cu", *given])

    assert status == 0
    assert "the draft was not run: " in capsys.readouterr().out


def test_comments_between_the_arguments_of_a_macro_end_nothing():
    text = (
        "#define AT(row, col, width) ((row) * (width) + (col))\n"
        '__global__ void k(const float* x, float* y, int n, int m) { printf("a // b");'
        " int i = threadIdx.x;\n  if (i < n) y[i] = x[AT(\n    i,  // row, of n\n"
        "    0,  // column\n    m)]; }\n"
    )

    assert read_roles(text)["y"] == ("output", True, ("n",))


def test_a_parameter_hides_a_constant_of_its_name():
    text = "const int n = 1000;\n" + SCALE.replace("groups", "n").replace(
        "(i / width) % n", "i % n"
    )

    assert read_roles(text)["mean"][2] == ("n",)


def test_a_standard_of_c_is_no_flag_of_a_kernel(tmp_path):
    (tmp_path / "k.cu").write_text(SCALE)
    (tmp_path / "CMakeLists.txt").write_text(
        'set(CMAKE_C_FLAGS "-std=c11")\nset(CMAKE_CXX_FLAGS "-std=c++17")\n'
    )

    assert plan_includes(tmp_path / "k.cu", tmp_path, []).flags == ("-std=c++17",)


def test_a_template_parameter_of_the_launch_is_asked_for_once(project):
    (project / "k.cu").write_text(
        "template <int ROWS> __global__ void k(const float* x, float* y, int n) {"
        " int i = threadIdx.x; if (i < n) y[i] = ROWS * x[i]; }\n"
        "template <int ROWS> struct Runner { static int use(float* x, float* y, int n); };\n"
        "int main() { int n = 8; float *x, *y; const int ROWS = pick();\n"
        "  k<ROWS><<<(n + ROWS - 1) / ROWS, 32>>>(x, y, n); }\n"
    )
    asked = [line.partition("=")[0] for line in init_project("k.cu").to_fill]

    assert sorted(asked) == sorted(set(asked))


def test_a_kernel_that_cannot_be_read_is_not_said_to_be_missing(project):
    (project / "k.cu").write_text(
        "#define KERNEL __global__ void\nKERNEL k(float* x) { x[0] = 1; }\n"
    )

    with pytest.raises(BadValueError, match="names __global__, but no kernel of it can be read"):
        init_project("k.cu")


def test_a_pointer_that_is_moved_along_itself_keeps_its_role():
    text = (
        "__global__ void k(float* a, float* y, int n) { int i = threadIdx.x;"
        " a = &a[n * blockIdx.x]; if (i < n) y[i] = a[i]; }"
    )

    assert read_roles(text)["a"][:2] == ("input", True)


def test_a_file_of_kernels_names_the_file_that_launches_them(project):
    (project / "kernels.py").write_text(GATED.partition("def gate")[0])
    with pytest.raises(BadValueError, match=r'--from "python PROGRAM" --op _gate$'):
        init_project("kernels.py")
    layers = "import triton\nfrom kernels import _gate\n\n\n"
    layers += "def run(e, g, h):\n    _gate[(1,)](e, g, h, 4)\n"
    (project / "layers.py").write_text(layers)
    with pytest.raises(BadValueError, match=r"; layers\.py does: name that file$"):
        init_project("kernels.py")
    (project / "layers.py").write_text(layers.replace("def run(e,", "class M:\n  def run(self, e,"))
    with pytest.raises(
        BadValueError, match=r"; layers\.py does, in no function of tensors; record"
    ):
        init_project("kernels.py")


@pytest.mark.parametrize("name", ["token_ids", "req_to_token_indexs", "DestLoc", "kv_lens", "idx"])
def test_an_array_of_indices_is_asked_for_its_own_dtype(project, name):
    (project / "gate.py").write_text(re.sub(r"\bg\b", name, GATED))
    asked = [line.partition("=")[0] for line in init_project("gate.py", kernel="gate").to_fill]

    assert f"{name.lower()}.dtype" in asked


def test_macros_of_a_header_are_expanded_in_the_source(project):
    (project / "macros.h").write_text(
        "#define CAST4(p) (reinterpret_cast<float4*>(&(p))[0])\n#define LOAD4(p) CAST4(p)\n"
        "#define UNUSED(p) p\n"
    )
    (project / "k.cu").write_text(
        '#include "macros.h"\n__global__ void k(float* x, float* y, int n) {'
        " int i = 4 * threadIdx.x; if (i < n) CAST4(y[i]) = LOAD4(x[i]); }\n"
    )
    init_project("k.cu", answers=["x=[n]", "y=[n]", "grid=1", "block=32", "reference"])
    kernel = load_kernel(str(project / "kernels/k")).kernel

    assert [a.name for a in kernel.inputs] == ["x"]
    assert [a.name for a in kernel.outputs] == ["y"]


def test_a_launcher_that_a_macro_instantiates_is_drafted(project):
    (project / "shift.cuh").write_text(
        "template <int BY, typename T> __global__ void shift_kernel(const T* x, T* y, int n) {"
        " int i = threadIdx.x; if (i < n) y[i] = x[i] + BY; }\n"
        "template <int BY, typename T> void shift(const T* x, T* y, int n) {"
        " shift_kernel<BY, T><<<1, 256>>>(x, y, n); }\n"
        "#define FOR_ALL(f) f(4, float)\n"
        "#define MAKE(by, T) template void shift<by>(const T*, T*, int);\n"
    )
    (project / "shift.cu").write_text('#include "shift.cuh"\nFOR_ALL(MAKE)\n')
    asked = init_project("shift.cu")
    made = init_project("shift.cu", answers=["T=float", "reference"])

    assert asked.to_fill[0].startswith("T=?  # ")
    assert made.to_fill == ()
    assert "shift<4, float>(" in (project / "kernels/shift/launch.cu").read_text()


ROTATE = """\
import torch
import triton
import triton.language as tl


@triton.jit
def _rotate(x, y, rows, COLS, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + at, tl.load(x + at, mask=at < rows * COLS), mask=at < rows * COLS)


def rotate(x: torch.Tensor, w: torch.Tensor, Steps: int, HALF: int):
    Rows, COLS = x.shape
    y = torch.empty_like(x)
    _rotate[(Rows,)](x, y, Rows, COLS, B=64)
    return y + w.sum() * Steps * HALF
"""


@pytest.mark.parametrize("said", ["[rows, cols]", "[Rows, COLS]", "[rows, COLS]"])
def test_an_answer_names_an_axis_as_the_source_or_as_the_draft_writes_it(project, said):
    (project / "k.py").write_text(ROTATE)
    init_project("k.py", kernel="rotate", answers=[f"w={said}"])
    drafted = next(project.glob("kernels/*/kernel.yaml")).read_text()

    assert "axes: [rows, cols]" in drafted
    assert "{name: w, shape: [rows, cols]" in drafted


def test_two_answers_that_differ_in_case_name_one_axis(project):
    (project / "k.py").write_text(ROTATE.replace("Rows, COLS = x.shape", "Rows, COLS = sizes(x)"))
    init_project("k.py", kernel="rotate", answers=["x=[B, T]", "w=[b, t]", "out=[B, t]"])

    assert "axes: [b, t]" in next(project.glob("kernels/*/kernel.yaml")).read_text()


def read_call(project):
    """Return the arguments of the function in launch.py, with the names that it takes."""
    (file,) = project.glob("kernels/*/launch.py")
    last = [n for n in ast.parse(file.read_text()).body if isinstance(n, ast.FunctionDef)][-1]
    call = next(n for n in ast.walk(last) if isinstance(n, ast.Call))
    return [a.arg for a in last.args.args], [ast.unparse(value) for value in call.args]


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ("axis", "w.shape[1]"),
        ("half", "w.shape[1]"),
        ("HALF * 2 + rows", "w.shape[1] * 2 + x.shape[0]"),
        ("min(8, LIMIT)", "min(8, _MODULE.LIMIT)"),
        ("torch.bfloat16", "_MODULE.torch.bfloat16"),
    ],
)
def test_a_number_of_python_is_an_expression_of_what_its_launcher_has(project, said, written):
    (project / "k.py").write_text(f"{ROTATE}\n\nLIMIT = 4\n")
    asked = init_project("k.py", kernel="rotate").to_fill
    init_project("k.py", kernel="rotate", answers=["w=[8, half]", f"HALF={said}", "steps=3"])

    assert [line.partition("  #")[0] for line in asked][3:5] == ["Steps=?", "HALF=axis"]
    assert read_call(project) == (["x", "w"], ["x", "w", "3", written])


def test_a_number_that_needs_an_unknown_name_is_asked_for_until_an_array_has_it(project):
    (project / "k.py").write_text(ROTATE)
    first = init_project("k.py", kernel="rotate", answers=["HALF=axis", "Steps=blocks * 32"])
    last = init_project("k.py", kernel="rotate", answers=["w=[half, blocks]"])

    assert [line for line in first.to_fill if "no array that is passed has the axis blocks" in line]
    assert not [line for line in last.to_fill if line.startswith(("HALF", "Steps"))]
    assert read_call(project)[1] == ["x", "w", "w.shape[1] * 32", "w.shape[0]"]
    with pytest.raises(BadValueError, match="is no expression of Python; give a number"):
        init_project("k.py", kernel="rotate", answers=["HALF=4 4"])


def test_a_number_that_the_function_overwrites_with_a_size_is_not_asked_for(project):
    (project / "k.py").write_text(ROTATE.replace("HALF: int", "COLS: int").replace("HALF", "COLS"))
    asked = init_project("k.py", kernel="rotate").to_fill

    assert not [line for line in asked if line.startswith("COLS")]
    assert read_call(project)[1][3] == "x.shape[1]"


def test_a_launcher_of_python_takes_the_start_of_what_its_kernel_changes(project):
    text = ROTATE.replace("tl.store(y +", "tl.store(x +").partition("    y = torch")[0]
    (project / "k.py").write_text(f"{text}    _rotate[(Rows,)](x, w, Rows, COLS, B=64)\n")
    init_project("k.py", kernel="rotate", answers=["Steps=1", "HALF=1"])

    assert "starts_as: x_start" in next(project.glob("kernels/*/kernel.yaml")).read_text()
    assert read_call(project) == (["w", "x_start", "x"], ["x", "w", "1", "1"])


def test_where_no_array_is_seen_to_be_written_the_role_of_each_is_asked(project):
    (project / "k.cu").write_text(
        "__global__ void look(const float* x, const float* y, int n) { float z = x[n] + y[n]; }\n"
    )
    asked = [line.partition("  #")[0] for line in init_project("k.cu").to_fill]
    left = init_project("k.cu", answers=["y.role=output"]).to_fill

    assert [line for line in asked if ".role" in line] == ["x.role=input", "y.role=output"]
    assert not [line for line in left if ".role" in line]


def test_a_kernel_without_an_array_is_refused(project):
    (project / "k.cu").write_text(
        "__global__ void blur(cudaSurfaceObject_t from, cudaSurfaceObject_t to, int n) {}\n"
    )

    with pytest.raises(BadValueError, match=r"blur of k\.cu is not seen to take or"):
        init_project("k.cu")
    assert not (project / "kernels").exists()


MANY = """\
#include <torch/extension.h>
std::vector<at::Tensor> split_all(at::Tensor x);
std::vector<at::Tensor> split(at::Tensor x) { x.sum(); return split_all(x); }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("split", &split); }
"""


def test_what_a_function_returns_through_another_is_asked_for_and_named(project):
    (project / "k.cpp").write_text(MANY)
    (project / "all.cpp").write_text(
        MANY.partition("\n")[0] + "\nstd::vector<at::Tensor> split_all(at::Tensor x) {"
        " auto parts = x.chunk(2); return parts; }\n"
    )
    asked = init_project("k.cpp", target="cpu").to_fill
    told = ["x.role=input", "x=[n]", "returns=[x, rest]"]
    init_project("k.cpp", target="cpu", answers=told)
    left = init_project("k.cpp", target="cpu", answers=["rest=[n]"]).to_fill
    drafted = (project / "kernels/k/kernel.yaml").read_text()

    assert [line for line in asked if line.startswith("returns=?  # what it returns is not seen")]
    assert [line.partition("=")[0] for line in left] == ["x_out", "dtype", "reference"]
    assert "outputs:\n  - {name: x_out, shape: [FILL_IN], " in drafted
    assert "  - {name: rest, shape: [n], " in drafted


def test_a_pair_that_another_function_of_the_file_made_is_asked_for(project):
    text = GATED.replace("        return gate(e, g, scale, shift)", "        h, s = pair(e, g)")
    (project / "k.py").write_text(
        f"{text}        return h, s\n\n\ndef pair(e, g):\n    h = torch.empty_like(e)\n"
        "    _gate[(1,)](e, g, h, 4, BLOCK=8)\n    return h, h\n"
    )
    asked = init_project("k.py", kernel="Gate").to_fill
    init_project("k.py", kernel="Gate", answers=["returns=[h, s]"])
    drafted = next(project.glob("kernels/*/kernel.yaml")).read_text()

    assert any(line.startswith("returns=?") for line in asked)
    assert re.findall(r"{name: (\w)\b", drafted.partition("outputs:")[2]) == ["h", "s"]


def test_an_argument_is_no_output_of_a_python_function_that_returns_others(project):
    (project / "k.py").write_text(ROTATE)

    with pytest.raises(BadValueError, match=r"so w cannot be an output .* say w\.role=input"):
        init_project("k.py", kernel="rotate", answers=["w.role=output"])
    assert not (project / "kernels").exists()


HEADS = """\
__global__ void mix(const float* x, float* y, int n, int heads, int width, int pad) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i * 3 + heads] * width + pad;
}
void run(const float* x, float* y, int n, int heads, int width, int pad) {
  mix<<<(n + 255) / 256, 256>>>(x, y, n, heads, width, pad);
}
"""


def draft_heads(project, *answers):
    (project / "mix.cu").write_text(HEADS)
    init_project("mix.cu", answers=["pad=0", "reference", *answers])
    launch = (project / "kernels/mix/launch.cu").read_text()
    return load_kernel(str(project / "kernels/mix")).kernel, launch


@pytest.mark.parametrize("said", ["n // 2", "n / 2"])
def test_a_number_that_is_computed_from_an_axis_is_an_extent_and_no_second_variable(project, said):
    kernel, launch = draft_heads(project, "x=[n, heads, 3]", f"heads={said}", "width=heads // 2")

    assert (kernel.axes, kernel.inputs[0].shape) == (("n",), ("n", "(n // 2)", 3))
    assert "const int heads = n / 2;" in launch
    assert "const int width = heads / 2;" in launch
    assert "std::int64_t heads" not in launch


def test_a_number_of_c_is_no_extent_of_a_shape(project):
    with pytest.raises(BadValueError, match=r"heads is 'HEADS\.x' and a dimension of x"):
        draft_heads(project, "x=[n, heads]", "heads=HEADS.x", "width=1")


HOSTED = """\
__global__ void blur(const float* x, float* y) {
  int at = blockIdx.x * blockDim.x + threadIdx.x;
  y[at] = x[at + 1];
}
void run(const Image& image, int width, float* x, float* y) {
  blur<<<width / 256, 256>>>(x, y);
}
"""


def test_an_axis_that_is_named_like_a_number_of_the_launch_is_that_number(project):
    (project / "blur.cu").write_text(HOSTED)
    init_project("blur.cu", kernel="blur", answers=["x=[width + 1]", "y=[width]", "reference"])
    launch = (project / "kernels/blur/launch.cu").read_text()

    assert "const int width" not in launch
    assert "<<<width / 256, 256, 0," in launch


def test_a_variable_of_the_launch_that_is_named_like_an_axis_gets_another_name(project):
    host = "void run(const Image& image, float* x, float* y) {\n  int width = 4096;\n"
    (project / "blur.cu").write_text(re.sub(r"void run.*\n", host, HOSTED))
    init_project("blur.cu", kernel="blur", answers=["x=[width + 1]", "y=[width]", "reference"])
    launch = (project / "kernels/blur/launch.cu").read_text()

    assert "int kb_host_width = 4096;" in launch
    assert "<<<kb_host_width / 256, 256, 0," in launch


POOLED = """\
__global__ void pool(int count, const float* x, float* y, int wide, int pooled) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) y[i] = x[i / pooled * wide + i % pooled * 2];
}
void run(const Image& image, float* x, float* y, int rows, int wide) {
  int pooled = wide / 2;
  const int count = rows * pooled;
  pool<<<(count + 255) / 256, 256>>>(count, x, y, wide, pooled);
}
"""


def test_a_size_that_the_launch_computes_from_others_is_asked_for(project):
    (project / "pool.cu").write_text(POOLED)
    asked = [line.partition("  #")[0] for line in init_project("pool.cu", kernel="pool").to_fill]
    said = ["x=[rows, wide]", "count", "pooled", "reference"]
    init_project("pool.cu", kernel="pool", answers=said)
    kernel = load_kernel(str(project / "kernels/pool")).kernel

    assert {"count=rows * pooled", "pooled=wide // 2"} <= {*asked}
    assert set(kernel.axes) == {"rows", "wide"}
    assert kernel.outputs[0].shape == ("rows", "(wide // 2)")


def test_a_macro_that_a_launch_passes_for_a_size_is_declared_by_another_name(project):
    host = "#define WIDTH 4096\nvoid run(float* x, float* y, int n) {\n"
    text = SCALE.replace("int groups, int width", "int width").replace("groups * width", "width")
    text = text.replace("[(i / width) % groups]", "[i]").replace("float* mean", "float* mean")
    call = "  scale_kernel<<<(WIDTH + 255) / 256, 256>>>(x, Image::mean, y, WIDTH);\n}\n"
    (project / "k.cu").write_text(text + host + call)
    init_project("k.cu", kernel="scale_kernel", answers=["reference"])
    launch = next(project.glob("kernels/*/launch.cu")).read_text()

    assert "auto WIDTH" not in launch


@pytest.mark.parametrize(
    ("body", "is_whole"),
    [
        ("unsigned v = at[i]; if (i < n) y[v] = 0;", False),
        ("if (i < n) y[at[i]] = 0;", False),
        ("if (i < n) *(y + at[i]) = 0;", False),
        ("float* row = y + at[i] * n; row[i] = 0;", False),
        ("int k = atomicAdd(count, 1); if (i < n) y[k] = x[i];", False),
        ("if (i < n) y[2 * i] = x[i];", False),
        ("if (i < n) { y[2 * i] = x[i]; y[2 * i + 1] = 0; }", True),
        ("int k = 3 * i; if (i < n) { y[k] = 0; y[k + 2] = 0; }", False),
        ("if (i < n) y[i * incy] = x[i];", False),
        ("if (i < n) y[i * incy + threadIdx.y] = x[i];", True),
        ("float* row = y + i * incy; row[threadIdx.y] = x[i];", True),
        ("for (int k = 1; k < n; k++) y[i * n + k] = 0;", False),
        ("for (int k = 1; k < n; k++) y[i * n + k - 1] = 0;", True),
        ("for (int k = 0; k < n; k++) y[i * n + k] = 0;", True),
        ("int j = threadIdx.y; if (j <= i) y[i * n + j] = 0;", False),
        ("int j = threadIdx.y; if (j > i) return; y[i * n + j] = 0;", False),
        ("if (i % 2 == 0) y[i] = 0;", False),
        ("if (i % 2 == 0) y[i / 2] = 0;", True),
        ("if (i % 2 == 0) y[i] = 0; else y[i] = 1;", True),
        ("for (int k = at[i]; k < at[i + 1]; k++) y[k] = x[i];", True),
    ],
)
def test_an_output_of_which_only_some_elements_are_stored_may_be_read_too(body, is_whole):
    text = (
        "__global__ void k(const int* at, int* count, const float* x, float* y, int n, int incy)"
        f" {{ int i = blockIdx.x * blockDim.x + threadIdx.x; {body} }}"
    )

    assert read_roles(text)["y"][:2] == ("output", is_whole)


@pytest.mark.parametrize(
    ("body", "is_whole"),
    [("y[i].x = 0; y[i].y = 1;", True), ("y[i].x = 0;", False), ("y[i] = x[i];", True)],
)
def test_an_output_of_vectors_of_which_a_member_is_not_stored_may_be_read_too(body, is_whole):
    text = (
        "__global__ void k(const float2* x, float2* y, int n)"
        f" {{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) {{ {body} }} }}"
    )

    assert read_roles(text)["y"][:2] == ("output", is_whole)


PANEL = """\
typedef struct { float gain; KIND; } Panel;
__global__ void shade(const float* x, float* y, Panel* panels, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * ACCESS;
}
"""
SHADE = ["x=[n]", "y=[n]", "grid=n", "block=1", "reference"]


@pytest.mark.parametrize(
    ("kind", "access", "says"),
    [
        ("float* rows", "panels[i].gain", "holds pointers or objects, line 1: float* rows;"),
        ("std::vector<float> rows", "panels->gain", "holds pointers or objects"),
        ("int mode", "panels[i].gain", "has members of several types, line 1: int mode;"),
    ],
)
def test_a_pointer_to_structures_that_no_array_can_be_is_refused(project, kind, access, says):
    (project / "k.cu").write_text(PANEL.replace("KIND", kind).replace("ACCESS", access))

    with pytest.raises(BadValueError, match=rf"takes panels, a pointer to .*{re.escape(says)}"):
        init_project("k.cu")
    with pytest.raises(BadValueError, match="reads what panels points to"):
        init_project("k.cu", answers=[*SHADE, "panels=nullptr"])
    made = init_project("k.cu", answers=[*SHADE, "panels=load_panels()"])
    assert made.to_fill == ()


def test_a_structure_of_numbers_of_one_type_is_an_array(project):
    (project / "k.cu").write_text(
        PANEL.replace("KIND", "float a[3]").replace("ACCESS", "panels[i].gain")
    )

    assert init_project("k.cu", answers=[*SHADE, "panels=[n, 4]"]).to_fill == ()


def test_states_of_a_library_are_no_array(project):
    text = PANEL.replace("KIND", "int a").replace("Panel*", "curandState*")
    (project / "k.cu").write_text(text.replace("ACCESS", "draw(&panels[i])"))

    with pytest.raises(BadValueError, match="takes panels, a pointer to structures"):
        init_project("k.cu")


STATE = """\
HEAD
__global__ void k(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < BOUND) y[i] = x[i];
  AFTER
}
"""


@pytest.mark.parametrize(
    ("head", "bound", "after", "asked"),
    [
        ("__managed__ unsigned live;", "live", "", "live"),
        ("__device__ __managed__ int first, live;", "live", "", "live"),
        ("static __device__ int live[4];", "live[0]", "", "live"),
        ("__device__ int* live;", "live[0]", "", "live"),
        ("__device__ int live = 4;", "live", "", ""),
        ("__device__ int live;", "n", "if (i == 0) live = n;", ""),
        ("__device__ int live;", "n", "atomicAdd(&live, 1);", ""),
        ("__device__ int live(int);", "live(n)", "", ""),
    ],
)
def test_a_variable_of_the_device_that_nothing_sets_is_asked(project, head, bound, after, asked):
    text = STATE.replace("HEAD", head).replace("BOUND", bound).replace("AFTER", after)
    (project / "k.cu").write_text(text)
    answers = ["x=[n]", "y=[n]", "y.role=output", "grid=n", "block=1", "reference"]

    open_ = [each.partition("=")[0] for each in init_project("k.cu", answers=answers).to_fill]

    assert open_ == [asked] * bool(asked)
    if asked:
        init_project("k.cu", answers=["live=7"])
        assert "cudaMemcpyToSymbol(live," in (project / "kernels/k/launch.cu").read_text()


HOST = """\
__global__ void k(const double* a, double* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i];
}
BEGIN
  const int WIDE = 128;
  EXTERNvoid run(const double* a, double* c, int n) {
    double *d_a, *d_c;
    cudaMalloc(&d_a, n * sizeof(double)); cudaMalloc(&d_c, n * sizeof(double));
    cudaMemcpy(d_a, a, n * sizeof(double), cudaMemcpyHostToDevice);
    k<<<(n + WIDE - 1) / WIDE, WIDE>>>(d_a, d_c, n);
    cudaMemcpy(c, d_c, n * sizeof(double), cudaMemcpyDeviceToHost);
  }
END
"""


@pytest.mark.parametrize(
    ("begin", "end", "extern"),
    [("", "", ""), ('extern "C" {', "}", ""), ("", "", 'extern "C" '), ("namespace a {", "}", "")],
)
def test_a_function_of_host_memory_is_no_launcher_in_any_block(project, begin, end, extern):
    text = HOST.replace("BEGIN", begin).replace("END", end).replace("EXTERN", extern)
    (project / "k.cu").write_text(text)

    made = init_project("k.cu", answers=["reference"])

    assert made.to_fill == ()
    launcher = (project / "kernels/k/launch.cu").read_text()
    assert "k<<<(n + WIDE - 1) / WIDE, WIDE, 0," in launcher
    assert "int WIDE" not in launcher


@pytest.mark.parametrize(
    "held",
    [
        "int main() { const int WIDE {128};",
        "int main() { const unsigned int WIDE{128};",
        "const int WIDE {128}; int main() {",
        "const unsigned int WIDE = 128; int main() {",
    ],
)
def test_a_constant_is_read_however_it_is_initialised(project, held):
    (project / "k.cu").write_text(
        "__global__ void k(const float* x, float* y, int n) {"
        " int i {int(blockIdx.x * blockDim.x + threadIdx.x)}; if (i < n) y[i] = x[i]; }\n"
        f"{held} float *x, *y; int n = 99; k<<<(n + WIDE - 1) / WIDE, WIDE>>>(x, y, n); }}\n"
    )

    assert [each.partition("=")[0] for each in init_project("k.cu").to_fill] == ["reference"]


def test_files_of_c_are_compiled_along_and_headers_of_the_toolkit_are_not_missing(project):
    (project / "count.h").write_text(
        '#ifdef __cplusplus\nextern "C" {\n#endif\nint count_of(int);\n'
        "#ifdef __cplusplus\n}\n#endif\n"
    )
    (project / "count.c").write_text('#include "count.h"\nint count_of(int a) { return a; }\n')
    (project / "k.cu").write_text(
        '#include <cuComplex.h>\n#include <nvml.h>\n#include "count.h"\n'
        + SCALE
        + "int start(int c) { return count_of(c); }\n"
    )
    made = init_project("k.cu")

    assert made.warnings == ()
    assert "also: [count.c]" in (project / "kernels/k/kernel.yaml").read_text()


SUMS = """\
__global__ void sums(const float* x, float* y) {
  __shared__ float held[256];
  held[threadIdx.x] = x[threadIdx.x + blockIdx.x * blockDim.x];
  __syncthreads();
  if (threadIdx.x == 0) y[blockIdx.x] = held[0];
}
int main() {
  int N = atoi(argv[1]);
  sums<<<(N + 255) / 256, 256>>>(load(N), make(N));
}
"""


def test_a_number_that_is_said_of_an_axis_is_its_size_in_all_workloads(project):
    (project / "k.cu").write_text(SUMS)
    words = ["x=[N]", "y=[4]", "N=1024", "reference"]
    made = init_project("k.cu", kernel="sums", answers=words)
    folder = project / f"kernels/{made.kernel}"
    kernel = load_kernel(str(folder)).kernel

    assert (kernel.inputs[0].shape, kernel.outputs[0].shape) == ((1024,), (4,))
    assert "const int N = 1024;" in (folder / "launch.cu").read_text()


IMAGE = """\
__global__ void k(const float* x, float* y, int rows, int cols) {
  int i = threadIdx.x + blockDim.x * blockIdx.x, j = threadIdx.y + blockDim.y * blockIdx.y;
  if (i < cols && j < rows) y[j * cols + i] = x[j * cols + i];
}
struct Image { int rows, cols; };
int main() {
  Image image = load(); int Rows = image.rows; int Cols = image.cols;
  const int height = PASSED; float *x, *y; dim3 block(32, 32);
  dim3 grid((Cols - 1) / 32 + 1, (Rows - 1) / 32 + 1);
  k<<<grid, block>>>(x, y, height, Cols);
}
"""


def test_a_variable_of_the_host_that_a_constant_is_a_copy_of_is_the_parameter(project):
    (project / "k.cu").write_text(IMAGE.replace("PASSED", "Rows"))

    assert [each.partition("=")[0] for each in init_project("k.cu").to_fill] == ["reference"]


ROWS = """\
__global__ void k(const float* x, float* y, int rows, int width) {
  int row = blockIdx.x, at = threadIdx.x;
  if (row < rows && at < width) y[row * width + at] = x[row * width + at];
}
"""


@pytest.mark.parametrize(
    ("host", "answers", "most"),
    [
        (
            "cudaError_t run(const float* x, float* y, int rows, int width) { int wide = 256;"
            " k<<<rows, wide>>>(x, y, rows, width); return cudaGetLastError(); }",
            [],
            256,
        ),
        (
            "int main() { float *x, *y; int rows = 9, width = 8; dim3 wide(64);"
            " k<<<rows, wide>>>(x, y, rows, width); }",
            [],
            64,
        ),
        (
            "int main() { float *x, *y; int rows = 9, width = 8;"
            " k<<<rows, width>>>(x, y, rows, width); }",
            [],
            1024,
        ),
        ("", ["grid=rows", "block=128"], 128),
    ],
)
def test_a_size_that_one_block_covers_is_not_larger_in_any_workload(project, host, answers, most):
    (project / "k.cu").write_text(ROWS + host)
    words = ["x=[rows, width]", "y=[rows, width]", *answers, "reference"]
    kernel = init_project("k.cu", answers=words).kernel
    drafted = load_kernel(str(project / "kernels" / kernel)).kernel
    text = (project / "kernels" / kernel / "kernel.yaml").read_text()

    assert max(sizes["width"] for sizes in drafted.workloads.values()) <= most
    assert f"# Assumed: width is at most {most}, " in text


def test_a_grid_of_one_block_bounds_the_size_that_is_said_with_it(project):
    (project / "k.cu").write_text(
        "__global__ void k(const float* x, float* y, int n) {"
        " int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = x[i]; }\n"
    )
    init_project("k.cu", answers=["grid=1", "block=256", "reference"])
    drafted = load_kernel(str(project / "kernels/k")).kernel

    assert max(sizes["n"] for sizes in drafted.workloads.values()) <= 256


def test_the_status_that_a_launcher_returns_is_not_dropped(project):
    (project / "k.cu").write_text(
        ROWS + "cudaError_t run(const float* x, float* y, int rows, int width) {"
        " k<<<rows, 256>>>(x, y, rows, width); return cudaGetLastError(); }\n"
    )
    init_project("k.cu")
    launcher = (project / "kernels/k/launch.cu").read_text()

    assert "const cudaError_t kb_status = run(" in launcher
    assert "if (kb_status != cudaSuccess) return static_cast<int>(kb_status);" in launcher


def test_a_reference_may_name_what_the_source_names(project):
    (project / "k.cu").write_text(
        "__global__ void add(const float* xVal, float* yVal, int nRows) {"
        " int i = threadIdx.x; if (i < nRows) yVal[i] += xVal[i]; }\n"
    )
    init_project("k.cu", answers=["reference=yVal_start + xVal[:nRows]"])

    code = (project / "kernels/k/reference.py").read_text()
    assert "def reference(xval, yval_start):" in code
    assert code.endswith("return yval_start + xval[:nrows]\n")


@pytest.mark.parametrize(
    "said",
    [
        "torch.view_as_real(torch.fft.fft(torch.view_as_complex(x)))",
        "torch.linalg.norm(x, dim=-1)",
        "torch.special.erf(x)",
        "F.gelu(x, approximate='tanh')",
    ],
)
def test_a_reference_names_functions_of_torchs_parts(project, said):
    (project / "k.cu").write_text(ROWS)
    init_project("k.cu", answers=[f"reference={said}"])

    code = (project / "kernels/k/reference.py").read_text()
    assert code.endswith(f"return {said.replace('F.', 'torch.nn.functional.')}\n")


@pytest.mark.parametrize(
    ("kind", "code", "fill"),
    [
        ("float", "y[i] = logf(x[i]);", "uniform"),
        ("float", "float a = x[i]; y[i] = sqrtf(2 * a);", "uniform"),
        ("float", "float a = x[i], b = 2; y[i] = logf(b / a);", "uniform"),
        ("float", "y[i] = 1.0f / (x[i] * 2);", "uniform"),
        ("float", "y[i] = 1.0f / (1 + expf(-x[i]));", "normal"),
        ("float", "y[i] = logf(2.0f) * x[i];", "normal"),
        ("float", "float a = x[i]; y[i] = sqrtf(a * a + 1);", "normal"),
        ("float", "float a = x[i]; y[i] = logf(a + 1e-7f);", "uniform"),
    ],
)
@pytest.mark.parametrize("kernel", ["k", "run"])
def test_numbers_that_go_into_logarithms_and_divisors_are_drawn_positive(
    project, kind, code, fill, kernel
):
    (project / "k.cu").write_text(
        f"__global__ void k(const {kind}* x, float* y, int n) {{"
        f" int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) {{ {code} }} }}\n"
        f"void run(const {kind}* x, float* y, int n) {{ k<<<(n + 63) / 64, 64>>>(x, y, n); }}\n"
    )
    init_project("k.cu", kernel=kernel, name="k", answers=["reference"])

    assert load_kernel(str(project / "kernels/k")).kernel.inputs[0].fill == fill


@pytest.mark.parametrize("define", ["", "__global__ void k(float* x, int n) {}\n"])
def test_a_launch_in_a_file_that_includes_the_header_of_a_kernel_is_found(project, define):
    (project / "k.cuh").write_text("__global__ void k(const float* x, float* y, int n);\n")
    (project / "k.cu").write_text(
        "__global__ void k(const float* x, float* y, int n) {"
        " int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = x[i]; }\n"
    )
    (project / "app.cu").write_text(
        f'#include "k.cuh"\n{define}'
        "int main() { float *x, *y; int n = 5; k<<<(n + 63) / 64, 64>>>(x, y, n); }\n"
    )
    asked = [each.partition("=")[0] for each in init_project("k.cu").to_fill]

    assert asked == (["grid", "block", "reference"] if define else ["reference"])


@pytest.mark.parametrize(
    ("code", "races"),
    [
        ("int v = at[i]; y[v] = x[i];", True),
        ("y[at[i]] = x[i];", True),
        ("y[at[i]] = 0;", False),
        ("y[i] = x[at[i]];", False),
        ("atomicAdd(&y[at[i]], x[i]);", False),
        ("for (int j = at[i]; j < at[i + 1]; j++) y[j] = x[i];", False),
    ],
)
def test_a_store_to_drawn_places_is_told_to_race(project, code, races):
    (project / "k.cu").write_text(
        "__global__ void k(const int* at, const float* x, float* y, int n) {"
        f" int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) {{ {code} }} }}\n"
    )
    told = [each for each in init_project("k.cu").warnings if "race" in each]
    words = ["x=[n]", "y=[n]", "at=[n]", "at.fill=permutation"]

    assert [each.partition(":")[0] for each in told] == ["y is stored where at says"] * races
    assert init_project("k.cu", answers=words).warnings == ()


def test_a_pointer_to_a_function_is_no_array(project):
    (project / "k.cu").write_text(
        "__global__ void k(const float* x, float* y, int n, float (*act)(float)) {\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "  if (i < n) y[i] = act ? act(x[i]) : x[i];\n}\n"
        "void run(const float* x, float* y, int n, float (*act)(float)) {\n"
        "  k<<<(n + 255) / 256, 256>>>(x, y, n, act);\n}\n"
    )
    asked = init_project("k.cu").to_fill
    init_project("k.cu", answers=["act=nullptr", "reference"])

    assert any(each.startswith("act=?") for each in asked)
    assert "auto act = nullptr;" in (project / "kernels/k/launch.cu").read_text()
    assert load_kernel(str(project / "kernels/k")).kernel.size_axes == ("n",)


def test_an_array_may_have_the_name_of_an_answer(project):
    (project / "k.cu").write_text(
        "__global__ void k(const float* reference, float* y, int n) {\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) y[i] = reference[i];\n}\n"
        "void run(const float* reference, float* y, int n) {\n"
        "  k<<<(n + 255) / 256, 256>>>(reference, y, n);\n}\n"
    )
    init_project("k.cu", answers=["reference_=[n]", "reference=reference_ * 1"])
    kernel = load_kernel(str(project / "kernels/k")).kernel

    assert [each.name for each in kernel.inputs] == ["reference_"]
    assert kernel.reference.function == "reference"


CLEARED = (
    "__global__ void k({kind} {name}, int* y, int n) {{\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) {{ {code} }}\n}}\n"
    "__global__ void other(int* m, int n) {{ if (threadIdx.x < n) m[threadIdx.x] = 1; }}\n"
    "void run(const int* in, int* y, int n) {{\n"
    "  {kind} m; int zero = 0; cudaMalloc((void**)&m, n * 4);\n  {host}\n"
    "  k<<<(n + 63) / 64, 64>>>(m, y, n);\n"
    "  cudaMemcpy(y, m, n * 4, cudaMemcpyDeviceToHost);\n}}\n"
)


@pytest.mark.parametrize(
    ("host", "fill"),
    [
        ("cudaMemset((void*)m, 0, n * 4);", "zeros"),
        ("CHECK(cudaMemsetAsync(m, 0x00, n * 4, 0));", "zeros"),
        ("cudaMemcpy(m, &zero, 4, cudaMemcpyHostToDevice);", "zeros"),
        (
            "std::vector<int> h(n, 0); cudaMemcpy(m, h.data(), n * 4, cudaMemcpyHostToDevice);",
            "zeros",
        ),
        ("thrust::fill(thrust::device_ptr<int>(m), thrust::device_ptr<int>(m) + n, 0);", "zeros"),
        ("cudaMemset(m, 3, n * 4);", "integers 32|zeros"),
        ("cudaMemset(m, 0, n * 4); other<<<1, 64>>>(m, n);", "zeros|integers 32"),
        (
            "cudaMemset(m, 0, n * 4); cudaMemcpy(m, in, 4, cudaMemcpyHostToDevice);",
            "zeros|integers 32",
        ),
        ("int h[9] = {0}; h[3] = 5; cudaMemcpy(m, h, 36, cudaMemcpyHostToDevice);", ""),
        ("cudaMemcpy(m, in, n * 4, cudaMemcpyHostToDevice);", ""),
    ],
)
@pytest.mark.parametrize("code", ["y[i] = m[i];", "m[i] = m[i] * 2 + y[i];"])
def test_memory_that_the_host_clears_is_zeros_and_else_asked(project, host, fill, code):
    (project / "k.cu").write_text(CLEARED.format(kind="int*", name="m", host=host, code=code))
    asked = init_project("k.cu", kernel="k").to_fill
    text = (project / "kernels/k/kernel.yaml").read_text()
    line = next(each for each in text.splitlines() if re.search(r"name: m(_start)?,", each))

    questions = [each.partition(";")[0] for each in asked if each.startswith("m.fill")]
    first, _, second = fill.partition("|")
    assert questions == ([f"m.fill={first}  # or {second}"] if second else [])
    drawn = "FILL_IN" if "|" in fill else fill or "integers"
    assert f"fill: {drawn}" in line


def test_values_that_were_asked_and_said_are_taken(project):
    host = "cudaMemset(m, 255, n * 4);"
    text = CLEARED.format(kind="int*", name="m", host=host, code="m[i] += y[i];")
    (project / "k.cu").write_text(text)
    init_project("k.cu", kernel="k", answers=["m.fill=integers 9 from 8", "reference"])
    start = load_kernel(str(project / "kernels/k")).kernel.inputs[-1]

    assert (start.name, start.fill, start.scale, start.low) == ("m_start", "integers", 9, 8)


@pytest.mark.parametrize(
    ("kind", "code", "drawn", "asked"),
    [
        ("int", "int v = at[i]; y[i] = x[v];", "fill: integers, scale: m", ""),
        ("int", "y[i] = x[(int)at[i]];", "fill: integers, scale: m", ""),
        ("int", "y[i] = x[at[i] + 1];", "fill: integers, scale: 32", ""),
        ("int", "y[i] = x[i] * at[i];", "fill: integers, scale: 32", ""),
        ("int", "for (int j = 0; j < *at; j++) y[i] += x[j];", "fill: FILL_IN", "integers 32"),
        ("float", "int v = (int)at[i]; y[i] = x[v];", "fill: FILL_IN", "integers 32"),
        ("float", "y[i] = x[(int)at[i] * 2];", "fill: FILL_IN", "integers 32"),
        ("float", "y[i] = x[i] * at[i];", "fill: normal", ""),
        ("float", "y[i] = x[i] * (int)at[i];", "fill: FILL_IN", "integers 32"),
        ("int", "int e = at[i + 1], j = i; while (j < e) y[i] += x[j++];", "fill: offsets", "?"),
        ("int", "y[i] = at[i + 1] > at[i] ? x[i] : 0;", "fill: integers, scale: 32", ""),
        ("int", "x += i * m; y[i] = x[at[i]];", "fill: integers, scale: m", ""),
    ],
)
@pytest.mark.parametrize("kernel", ["k", "run"])
def test_elements_that_choose_those_of_another_array_lie_in_it_or_are_asked(
    project, kind, code, drawn, asked, kernel
):
    arguments = f"const {kind}* at, const float* x, float* y, int n, int m"
    (project / "k.cu").write_text(
        f"__global__ void k({arguments}) {{"
        f" int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) {{ {code} }} }}\n"
        f"void run({arguments}) {{ k<<<(n + 63) / 64, 64>>>(at, x, y, n, m); }}\n"
    )
    answers = ["x=[n, m]" if "i * m" in code else "x=[m]", "at=[n]"]
    result = init_project("k.cu", kernel=kernel, name="k", answers=answers)
    text = (project / "kernels/k/kernel.yaml").read_text()
    line = next(each for each in text.splitlines() if "name: at," in each)
    questions = [each for each in result.to_fill if each.startswith("at.fill")]

    assert drawn in line
    assert [each.partition("  #")[0] for each in questions] == [f"at.fill={asked}"] * bool(asked)


@pytest.mark.parametrize(
    ("kind", "code", "is_asked"),
    [
        ("int", "atomicAdd(&y[x[i] > 0], 1);", True),
        ("unsigned", "atomicInc(y, 9); atomicMax(y + 1, 3);", True),
        ("int", "y[i] += x[i];", True),
        ("int", "y += 5; atomicAdd(&y[i], 1);", True),
        ("int", "y[i] = y[i] * 2 + x[i];", False),
        ("int", "atomicAdd(&y[i], 1); if (y[i] > 5) y[i] = 0;", False),
        ("float", "atomicAdd(&y[0], x[i]);", False),
    ],
)
def test_what_counters_begin_with_is_asked(project, kind, code, is_asked):
    (project / "k.cu").write_text(
        f"__global__ void k(const float* x, {kind}* y, int n) {{"
        f" int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) {{ {code} }} }}\n"
    )
    asked = [each for each in init_project("k.cu").to_fill if each.startswith("y.fill=zeros")]

    assert bool(asked) is is_asked


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ("0", "zeros"),
        ("1.0f", "ones"),
        ("7", "integers, scale: 8, low: 7"),
        ("-1", 'integers, scale: "0", low: -1'),
        ("-INFINITY", ""),
    ],
)
def test_the_values_before_a_call_may_be_one_number(project, said, written):
    (project / "k.cu").write_text(
        "__global__ void k(float* y, const float* x, int n) {\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) y[i] += x[i];\n}\n"
        "void run(float* y, const float* x, int n) { k<<<n / 64 + 1, 64>>>(y, x, n); }\n"
    )
    if not written:
        with pytest.raises(BadValueError, match=r"of one value kernel\.yaml has -1, 0, 1"):
            init_project("k.cu", answers=[f"y.fill={said}"])
        return
    init_project("k.cu", answers=[f"y.fill={said}", "reference"])

    assert f"fill: {written}}}" in (project / "kernels/k/kernel.yaml").read_text()
    assert load_kernel(str(project / "kernels/k")).kernel.inputs


def test_a_lambda_is_an_expression_and_no_shape(project):
    (project / "k.cu").write_text(
        "__global__ void k(const float* x, float* y, float a, int n) {\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) y[i] = a * x[i];\n}\n"
    )
    words = ["a=[]{ float v = 2; return v; }()", "grid=n/64+1", "block=64", "reference"]
    made = init_project("k.cu", answers=words)

    assert made.to_fill == ()
    assert "a = []{ float v = 2; return v; }();" in (project / "kernels/k/launch.cu").read_text()


def test_a_function_that_a_header_of_the_project_defines_is_not_called_undefined(project):
    (project / "big.h").write_text(
        "#ifdef BODY\nAPI int find_it(int a)\n{\n  return a;\n}\n#endif\n"
    )
    (project / "k.cu").write_text(
        "int find_it(int a);\nint lose_it(int a);\n"
        + SCALE
        + "int start(int c) { return find_it(c) + lose_it(c); }\n"
    )
    told = [w for w in init_project("k.cu").warnings if "defines" in w]

    assert [w.split()[-1] for w in told] == ["lose_it"]


RUNNING = """\
#include <math.h>
__global__ void run_max(const float* x, float* m, int n) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) m[i] = fmaxf(m[i], x[i]);
}}
int main(int argc, char** argv) {{
  int n = atoi(argv[1]);
  float *x = (float*)malloc(n * sizeof(float)), *dx, *dm;
  for (int i = 0; i < n; i++) x[i] = rand() / (float)RAND_MAX;
  cudaMalloc(&dx, n * sizeof(float));
  cudaMalloc(&dm, n * sizeof(float));
  cudaMemcpy(dx, x, n * sizeof(float), cudaMemcpyHostToDevice);
  {fill}
  run_max<<<(n + 255) / 256, 256>>>(dx, {m}, n);
}}
"""
COPIED = "cudaMemcpy(dm, {}, n * sizeof(float), cudaMemcpyHostToDevice);"


@pytest.mark.parametrize(
    ("fill", "found"),
    [
        ("float* h = new float[n]; for (int i = 0; i < n; i++) h[i] = 0; C(h)", "zeros"),
        ("float h[64]; for (int i = 0; i < n; i++) { h[i] = 1.0f; } C(h)", "ones"),
        ("float h[64]; for (int i = 0; i < n; i++) h[i] = -INFINITY; C(h)", "?no such fill"),
        ("std::vector<float> h(n, -FLT_MAX); C(h.data())", "?no such fill"),
        ("std::vector<float> h(n); C(h.data())", "zeros"),
        ("std::vector<float> h(n); std::fill(h.begin(), h.end(), 5.f); C(h.data())", "?integers 6"),
        ("thrust::device_vector<float> v(n, -1e30f);", "?no such fill"),
        ("thrust::device_vector<float> v(n); thrust::fill(v.begin(), v.end(), 0);", "zeros"),
        ("float h[64]; for (int i = 0; i < n; i++) h[i] = i * 2; C(h)", "normal"),
        ("float h[64] = {0}; load(h, n); C(h)", "normal"),
        ("std::vector<float> h(n); for (int i = 0; i < n; i++) h[i] = x[i]; C(h.data())", "normal"),
    ],
)
def test_one_value_that_a_host_sets_an_array_to_is_that_of_the_draft(project, fill, found):
    m = "thrust::raw_pointer_cast(v.data())" if " v(n" in fill else "dm"
    text = re.sub(r"C\((.*?)\)$", lambda c: COPIED.format(c[1]), fill)
    (project / "k.cu").write_text(RUNNING.format(fill=text, m=m))
    asked = [line for line in init_project("k.cu", kernel="run_max").to_fill if ".fill" in line]
    yaml = (project / "kernels/k/kernel.yaml").read_text()

    assert [found[1:] in line for line in asked] == [True] * (found[0] == "?")
    assert found[0] == "?" or re.search(rf"m_start.*fill: {found}", yaml)


TILED = """\
template <const int BM, const int BK>
__global__ void tiled(int M, int N, int K, const float* a, float* c) {{
  a += blockIdx.y * BM * K;
  c += blockIdx.y * N * BM + blockIdx.x * BM;
  float sum = 0;
  for (int k = 0; k < K; k += BK) sum += a[threadIdx.y * K + k + threadIdx.x];
  {store}
}}
"""


@pytest.mark.parametrize(
    ("store", "steps"),
    [
        ("c[threadIdx.y * N + threadIdx.x] = sum;", (128, 128, 48)),
        (
            "if (blockIdx.x * BM + threadIdx.x < N) c[threadIdx.y * N + threadIdx.x] = sum;",
            (128, 1, 48),
        ),
    ],
)
def test_sizes_of_a_kernel_without_a_guard_are_multiples_of_its_tile(project, store, steps):
    (project / "k.cu").write_text(TILED.format(store=store))
    shapes = ["a=[M, K]", "c=[M, N]", "BM=128", "BK=48", "reference"]
    init_project("k.cu", answers=[*shapes, "grid=dim3((N+127)/128, (M+127)/128)", "block=128"])
    kernel = load_kernel(str(project / "kernels/k")).kernel
    by_axis = dict(zip("mnk", steps, strict=True))

    assert not any(w[axis] % by_axis[axis] for w in kernel.workloads.values() for axis in by_axis)
    assert steps[1] > 1 or kernel.workloads["small"]["n"] % 128


@pytest.mark.parametrize(
    ("grid", "step"),
    [("n / 80", 80), ("dim3(n/W, 1)", 112), ("n / 80 + 1", 1), ("(n + 79) / 80", 1), ("few", 80)],
)
@pytest.mark.parametrize("by_launcher", [True, False])
def test_a_size_that_a_grid_divides_is_a_multiple(project, grid, step, by_launcher):
    (project / "k.cu").write_text(
        "const int W = 112;\n__global__ void twice(const float* x, float* y, int n) {\n"
        "  int i = blockIdx.x * 8 + threadIdx.x;\n  if (i < n) y[i] = 2 * x[i];\n}\n"
        "void run(const float* x, float* y, int n) {\n  int few = n / 80;\n"
        f"  twice<<<{grid}, 64>>>(x, y, n);\n}}\n"
    )
    name = "run" if by_launcher else "twice"
    init_project("k.cu", kernel=name, answers=["x=[n]", "y=[n]", "reference"])
    kernel = load_kernel(str(project / "kernels/k")).kernel

    assert all(sizes["n"] % step == 0 for sizes in kernel.workloads.values())


def test_a_kernel_named_by_a_macro_of_a_header_has_the_name_that_it_makes(project):
    (project / "names.h").write_text(
        "#ifndef PLAIN\n#define WIDE(f) f##_wide\n#else\n#define WIDE(f) f##_bare\n#endif\n"
    )
    (project / "k.cu").write_text(
        '#include "names.h"\n__global__ void WIDE(halve)(float* p, int n) {\n'
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) p[i] /= 2;\n}\n"
    )
    asked = init_project("k.cu", kernel="halve_wide")

    assert [line.partition("=")[0] for line in asked.to_fill][:2] == ["grid", "block"]
    assert "halve_wide<<<" in (project / "kernels/k/launch.cu").read_text()


def test_a_kernel_that_a_missing_macro_names_is_quoted_for_a_shell(project):
    body = "(float* p, int n) { if (threadIdx.x < n) p[threadIdx.x] = 1; }\n"
    (project / "k.cu").write_text("".join(f"__global__ void Z({n}){body}" for n in "ab"))
    with pytest.raises(BadValueError, match=r"--kernel 'Z\(a\)'"):
        init_project("k.cu")


LABELLED = """\
#define ROWS 12
__global__ void fit(const float* rows, float* out, int n, int {width}) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float sum = 0;
  for (int r = 0; r < {end}; r++) sum += rows[i + r * {width}];
  out[i] = sum * rows[i + {row} * {width}];
}}
"""


@pytest.mark.parametrize("width", ["width", "row_stride"])
@pytest.mark.parametrize(("end", "row"), [("ROWS", "ROWS"), ("12", "12"), ("12", "15")])
def test_a_constant_row_behind_those_of_a_loop_leaves_a_shape_to_be_asked(project, width, end, row):
    (project / "k.cu").write_text(LABELLED.format(width=width, end=end, row=row))

    assert [line[:7] for line in init_project("k.cu").to_fill][:1] == ["rows=? "]


ADDED = """\
#include <torch/extension.h>
__global__ void add_k(const float* v, const int64_t* at, int m, float* sums) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < m) atomicAdd(sums + at[i], v[i]);
}
at::Tensor add_up(const at::Tensor& v, const at::Tensor& at, int bins) {
  int m = v.size(0);
  at::Tensor sums = at::zeros({bins}, v.options());
  add_k<<<(m + 255) / 256, 256>>>(
      v.data_ptr<float>(), at.data_ptr<int64_t>(), m, sums.data_ptr<float>());
  return sums;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("add_up", &add_up); }
"""


@pytest.mark.parametrize("said", ["bins=axis", "bins=bins"])
def test_a_size_that_no_tensor_has_is_refused_as_an_axis(project, said):
    (project / "k.cu").write_text(ADDED)
    asked = init_project("k.cu")

    assert [line[:6] for line in asked.to_fill if line.startswith("bins")] == ["bins=?"]
    with pytest.raises(BadValueError, match="no tensor that is passed has that size"):
        init_project("k.cu", answers=["sums=[bins]", said])
    done = init_project("k.cu", answers=["sums=[bins]", "bins=12", "reference"])
    assert not done.to_fill
    assert "fill: integers, scale: 12}" in (project / "kernels/k/kernel.yaml").read_text()


def test_a_size_that_is_said_to_be_itself_is_an_axis_and_a_float_is_not(project):
    (project / "k.cu").write_text(
        "__global__ void fill(float* y, int count, float with) {\n"
        "  y[blockIdx.x * blockDim.x + threadIdx.x] = with + count;\n}\n"
    )
    said = ["y=[count]", "grid=count / 64", "block=64", "reference"]
    with pytest.raises(BadValueError, match="with=with says nothing"):
        init_project("k.cu", answers=["with=with"])

    assert not init_project("k.cu", answers=[*said, "count=count", "with=2"]).to_fill
    assert load_kernel(str(project / "kernels/k")).kernel.axes == ("count",)


@pytest.mark.parametrize("held", ["int (*grid_)[WIDE + 1]", "int grid_[][WIDE + 1]"])
@pytest.mark.parametrize("const", ["", "const "])
def test_a_pointer_to_rows_is_an_array_that_is_cast(project, held, const):
    store = "sums[i] = grid_[i][0]" if const else "grid_[i][1] = sums[i]"
    kind = "const int" if not const else "int"
    (project / "k.cu").write_text(
        f"const int WIDE = 70;\n__global__ void step({const}{held}, {kind}* sums, int n) {{\n"
        f"  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) {store};\n}}\n"
    )
    done = init_project("k.cu", answers=["grid=n / 64", "block=64", "reference"])
    kernel = load_kernel(str(project / "kernels/k")).kernel
    launcher = (project / "kernels/k/launch.cu").read_text()

    assert not done.to_fill
    assert ("n", 71) in [each.shape for each in (*kernel.inputs, *kernel.outputs)]
    assert f"(({const}int (*)[WIDE + 1])(grid_), " in launcher


BLOCKS = """\
#define EDGE 6
__global__ void turn(float* t, int side) {{
  __shared__ float part[EDGE][EDGE];
  part[threadIdx.y][threadIdx.x] = t[threadIdx.x + threadIdx.y * side];
  __syncthreads();
  t[threadIdx.y + threadIdx.x * side] = part[threadIdx.y][threadIdx.x];
}}
void run(float* t, int wide, int count) {{
  dim3 block({block});
  turn<<<count, block>>>(t, wide);
}}
"""


def test_the_edge_of_a_block_is_asked_and_the_threads_of_a_block_are_a_limit(project):
    (project / "k.cu").write_text(BLOCKS.format(block="wide, wide"))
    asked = init_project("k.cu", kernel="run").to_fill
    init_project("k.cu", kernel="run", answers=["wide=axis", "t=[count, wide]", "reference"])
    sizes = load_kernel(str(project / "kernels/k")).kernel.workloads

    assert "wide=6" in [line.partition(" ")[0] for line in asked]
    assert max(w["wide"] for w in sizes.values()) <= 32


def test_the_only_extent_of_a_block_is_asked_with_its_launch(project):
    (project / "k.cu").write_text(
        "__global__ void k(float* t, int side) { t[threadIdx.x] *= 2; }\n"
        "int main() { float* t; int wide; scan(&wide); k<<<1, wide>>>(t, wide); }\n"
    )
    asked = init_project("k.cu").to_fill

    assert "line 2: <<<1, wide>>>" in next(line for line in asked if line.startswith("side="))


def test_a_block_of_as_many_threads_as_a_parameter_says_has_a_limit(project):
    (project / "k.cu").write_text(BLOCKS.format(block="wide"))
    init_project("k.cu", kernel="run", answers=["wide=axis", "t=[count, wide]", "reference"])
    sizes = load_kernel(str(project / "kernels/k")).kernel.workloads

    assert max(w["wide"] for w in sizes.values()) == 1024


TURNED = """\
__global__ void scaled(float* c, int rows, int cols) {{
  unsigned row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 8 + threadIdx.x;
  if (row < rows && col < cols) c[row * cols + col] *= 2;
}}
void run(float* c, int rows, int cols) {{
  int wide = (cols + 7) / 8, high = (rows + 7) / 8;
  dim3 grid({grid});
  scaled<<<grid, dim3(8, 8)>>>(c, rows, cols);
}}
"""


@pytest.mark.parametrize(("grid", "is_told"), [("wide, high", False), ("high, wide", True)])
@pytest.mark.parametrize("name", ["run", "scaled"])
def test_a_grid_with_its_axes_exchanged_is_told(project, grid, is_told, name):
    (project / "k.cu").write_text(TURNED.format(grid=grid))
    told = " ".join(init_project("k.cu", kernel=name).warnings)

    assert ("scaled counts cols and rows along the other axis of its grid" in told) is is_told


@pytest.mark.parametrize("own", ["", "#include <cmath>\n"])
def test_a_header_without_includes_has_those_of_the_file_that_includes_it(project, own):
    (project / "sum.cuh").write_text(
        own + '__global__ void show(float* y) { printf("%f", y[threadIdx.x]); y[0] = 1; }\n'
    )
    (project / "main.cu").write_text('#include <cstdio>\n#include "sum.cuh"\n')
    init_project("sum.cuh")
    launcher = (project / "kernels/sum/launch.cu").read_text()

    assert ("#include <cstdio>\n" in launcher) is (not own)


CHOSEN = """\
template <int SIDE> __global__ void turn(const float* x, float* y, int side) {{
  __shared__ float held[SIDE];
  held[threadIdx.x] = x[blockIdx.x * side + threadIdx.x];
  __syncthreads();
  y[blockIdx.x * side + threadIdx.x] = held[side - 1 - threadIdx.x];
}}
void run(const float* x, float* y, int rows, int side) {{
  {choice}
}}
int main() {{
  float *x, *y; int rows = 64, side;
  {choice}
}}
"""
BY_IF = "if (side == 8) turn<8><<<rows, side>>>(x, y, side);\n"
BY_IF += "  else if (16 == side) {{ turn<16><<<rows, side>>>(x, y, side); }}"
BY_CASE = "switch (side) {{ case 8: turn<8><<<rows, side>>>(x, y, side); break;\n"
BY_CASE += "  case 16: turn<16><<<rows, side>>>(x, y, side); break; }}"
REST = "\n  else turn<32><<<rows, side>>>(x, y, side);"


@pytest.mark.parametrize("choice", [BY_IF, BY_CASE])
def test_a_launcher_that_starts_a_kernel_for_some_sizes_only_is_told_and_has_these(project, choice):
    (project / "k.cu").write_text(CHOSEN.format(choice=choice).replace("{{", "{"))
    first = init_project("k.cu", kernel="run", name="k")
    said = ["x=[rows, side]", "y=[rows, side]", "side=axis", "reference"]
    init_project("k.cu", kernel="run", name="k", answers=said)
    sizes = load_kernel(str(project / "kernels/k")).kernel.workloads

    assert any(line.startswith("side=8  # or 16") for line in first.to_fill)
    assert "run starts no kernel unless side == 8 or side == 16" in " ".join(first.warnings)
    assert {each["side"] for each in sizes.values()} <= {8, 16}


def test_a_launcher_with_a_branch_for_all_other_sizes_is_not_told_to_start_nothing(project):
    (project / "k.cu").write_text(CHOSEN.format(choice=BY_IF + REST))
    told = init_project("k.cu", kernel="run", name="k").warnings

    assert "starts no kernel" not in " ".join(told)


@pytest.mark.parametrize("side", [8, 16])
def test_a_template_that_is_chosen_by_a_size_is_asked_with_the_size_of_its_branch(project, side):
    text = CHOSEN.format(choice=BY_IF)
    (project / "k.cu").write_text(text[: text.index("void run")] + text[text.index("int main") :])
    first = init_project("k.cu")
    said = [f"SIDE={side}", "x=[rows, side]", "y=[rows, side]", "side=axis", "grid=rows"]
    done = init_project("k.cu", answers=[*said, "reference"])
    sizes = load_kernel(str(project / "kernels/k")).kernel.workloads

    asked = next(line for line in first.to_fill if line.startswith("SIDE="))
    assert "SIDE=8  # or 16" in asked
    assert "side == 8 starts turn<8>; say side to suit it" in asked
    assert f"is for side == {side}, line" in " ".join(done.warnings)
    assert {each["side"] for each in sizes.values()} == {side}


@pytest.mark.parametrize("axes", [5, 7, 9, 12])
def test_arrays_of_many_axes_have_room_in_the_memory_of_a_gpu(project, axes):
    names = [f"d{at}" for at in range(axes)]
    (project / "k.cu").write_text(
        f"__global__ void k(const float* x, float* y, int count, int {', int '.join(names)}) {{\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        f"  if (i < count) y[i] = x[i] * ({' + '.join(names)});\n}}\n"
    )
    whole = f"[{', '.join(names)}]"
    said = [f"x={whole}", f"y={whole}", f"count={'*'.join(names)}", "grid=count/64+1", "block=64"]
    init_project("k.cu", answers=[*said, *(f"{name}=axis" for name in names), "reference"])
    sizes = load_kernel(str(project / "kernels/k")).kernel.workloads

    assert 8 * math.prod(sizes["small"].values()) <= 8 * 2**20
    assert 2**20 < 8 * math.prod(sizes["large"].values()) <= 8 * 2**27


GROUPED = """\
__global__ void scale(const float* x, const float* by, float* y, int chans, int wide, int parts) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < chans * wide) y[i] = x[i] * by[i / wide / (chans / parts)];
}
void run(const float* x, const float* by, float* y, int chans, int wide, int parts) {
  const int each = chans / parts;
  scale<<<(chans * wide + 255) / 256, 256>>>(x, by, y, chans, wide, parts);
}
"""


@pytest.mark.parametrize("name", ["scale", "run"])
def test_a_size_that_is_divided_by_another_is_a_multiple_of_it(project, name):
    (project / "k.cu").write_text(GROUPED)
    said = ["x=[chans, wide]", "y=[chans, wide]", "by=[parts]", "reference", "parts=axis"]
    init_project("k.cu", kernel=name, name="k", answers=[*said, "chans=axis", "wide=axis"])
    sizes = load_kernel(str(project / "kernels/k")).kernel.workloads

    assert all(each["chans"] % each["parts"] == 0 for each in sizes.values())
    assert all(1 < each["parts"] < each["chans"] for each in sizes.values())


HALVED = """\
__device__ int place(const {kind}* keys, int count, {kind} key) {{
  int low = 0, high = count;
  while (low < high) {{
    int middle = {middle};
    if (keys[middle] < key) low = middle + 1; else high = middle;
  }}
  return low;
}}
__global__ void find(const {kind}* table, const {kind}* key, int* at, int count, int keys) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < keys) at[i] = {call};
}}
void run(const {kind}* table, const {kind}* key, int* at, int count, int keys) {{
  find<<<(keys + 255) / 256, 256>>>(table, key, at, count, keys);
}}
"""


@pytest.mark.parametrize("kind", ["float", "int"])
@pytest.mark.parametrize("name", ["run", "find"])
@pytest.mark.parametrize(
    ("middle", "call"),
    [
        ("(low + high) / 2", "place(table, count, key[i])"),
        ("low + ((high - low) >> 1)", "place(table, count, key[i])"),
        ("0", "thrust::upper_bound(thrust::seq, table, table + count, key[i]) - table"),
    ],
)
def test_an_array_that_is_searched_is_asked_for_values_that_ascend(
    project, kind, name, middle, call
):
    (project / "k.cu").write_text(HALVED.format(kind=kind, middle=middle, call=call))
    asked = [q for q in init_project("k.cu", kernel=name).to_fill if ".fill" in q]

    assert [line.partition("  #")[0] for line in asked] == ["table.fill=offsets 1024"]
    assert "it has to ascend" in asked[0]


def test_an_array_that_a_loop_halves_without_moving_an_end_is_not_searched(project):
    (project / "k.cu").write_text(
        "__global__ void sum(const float* x, float* y, int n) {\n  float own = x[threadIdx.x];\n"
        "  for (int step = n / 2; step > 0; step /= 2) { int at = threadIdx.x + step;\n"
        "    if (at < n) own += x[at]; }\n  y[threadIdx.x] = own;\n}\n"
        "void run(const float* x, float* y, int n) { sum<<<1, n>>>(x, y, n); }\n"
    )
    assert not [q for q in init_project("k.cu", kernel="run").to_fill if ".fill" in q]


@pytest.mark.parametrize("name", ["run", "k"])
@pytest.mark.parametrize("code", ["8 / x[i]", "i % x[i]", "split(i, x)"])
def test_integers_that_divide_are_asked_and_not_drawn_with_0(project, code, name):
    (project / "k.cu").write_text(
        "__device__ int split(int i, const int* of) { return i / of[0]; }\n"
        "__global__ void k(const int* x, float* y, int n) {"
        f" int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = {code} + x[i]; }}\n"
        "void run(const int* x, float* y, int n) { k<<<(n + 63) / 64, 64>>>(x, y, n); }\n"
    )
    asked = [q for q in init_project("k.cu", kernel=name).to_fill if ".fill" in q]

    assert len(asked) == 1
    assert asked[0].startswith("x.fill=ones  # or integers 32 from 1")
    assert "none may be 0" in asked[0]


def test_strides_in_an_array_are_asked(project):
    (project / "k.cu").write_text(
        "__global__ void k(const float* x, const int* in_strides, float* y, int n) {"
        " int i = blockIdx.x * 64 + threadIdx.x; if (i < n) y[i] = x[i * in_strides[0]]; }\n"
        "void run(const float* x, const int* in_strides, float* y, int n) {"
        " k<<<(n + 63) / 64, 64>>>(x, in_strides, y, n); }\n"
    )
    asked = init_project("k.cu", kernel="run").to_fill

    assert any(line.startswith("in_strides.fill=ones") for line in asked)


@pytest.mark.parametrize("held", ["extern __shared__ float s[];", "__shared__ float s[2048];"])
@pytest.mark.parametrize("name", ["run", "smooth"])
def test_how_much_wider_shared_memory_is_than_a_block_is_no_free_axis(project, held, name):
    (project / "k.cu").write_text(
        "__global__ void smooth(const float* x, float* y, int n, int reach) {\n"
        f"  {held}\n  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "  for (int j = threadIdx.x; j < blockDim.x + 2 * reach; j += blockDim.x)\n"
        "    s[j] = x[min(n - 1, max(0, (int)(blockIdx.x * blockDim.x) + j - reach))];\n"
        "  __syncthreads();\n  float sum = 0;\n"
        "  for (int j = -reach; j <= reach; j++) sum += s[threadIdx.x + reach + j];\n"
        "  if (i < n) y[i] = sum;\n}\n"
        "void run(const float* x, float* y, int n, int reach) {\n"
        "  smooth<<<(n + 63) / 64, 64, (64 + 2 * reach) * sizeof(float)>>>(x, y, n, reach);\n}\n"
    )
    asked = init_project("k.cu", kernel=name).to_fill

    assert any(line.startswith("reach=?") for line in asked)


@pytest.mark.parametrize(
    ("shared", "most"), [("n * sizeof(float)", 12288), ("(n + 32) * sizeof(double)", 6112)]
)
@pytest.mark.parametrize("name", ["run", "rows"])
def test_sizes_keep_to_the_shared_memory_of_a_launch(project, shared, most, name):
    (project / "k.cu").write_text(
        "__global__ void rows(const float* x, float* y, int m, int n) {\n"
        "  extern __shared__ float s[];\n"
        "  for (int i = threadIdx.x; i < n; i += 64) s[i] = x[blockIdx.x * n + i];\n"
        "  __syncthreads();\n"
        "  for (int i = threadIdx.x; i < n; i += 64) y[blockIdx.x * n + i] = s[n - 1 - i];\n}\n"
        f"void run(const float* x, float* y, int m, int n) {{\n  int room = {shared};\n"
        "  rows<<<m, 64, room>>>(x, y, m, n);\n}\n"
    )
    said = ["x=[m, n]", "y=[m, n]", "m=axis", "n=axis", "reference"]
    init_project("k.cu", kernel=name, name="k", answers=said)
    sizes = load_kernel(str(project / "kernels/k")).kernel.workloads

    assert max(each["n"] for each in sizes.values()) <= most


def test_a_size_that_ends_an_array_of_fixed_shared_memory_is_no_larger(project):
    (project / "k.cu").write_text(
        "#define ROOM 96\n__global__ void rows(const float* x, float* y, int m, int n) {\n"
        "  __shared__ float s[ROOM];\n"
        "  for (int i = threadIdx.x; i < n; i += 64) s[i] = x[blockIdx.x * n + i];\n"
        "  __syncthreads();\n"
        "  for (int j = threadIdx.x; j < n; j += 64) y[blockIdx.x * n + j] = s[j];\n}\n"
        "void run(const float* x, float* y, int m, int n) { rows<<<m, 64>>>(x, y, m, n); }\n"
    )
    said = ["x=[m, n]", "y=[m, n]", "m=axis", "n=axis", "reference"]
    init_project("k.cu", kernel="run", name="k", answers=said)
    sizes = load_kernel(str(project / "kernels/k")).kernel.workloads

    assert max(each["n"] for each in sizes.values()) == 96


@pytest.mark.parametrize(
    ("block", "most"), [("2 * w, 2 * w", 16), ("w + 2, 8", 126), ("2*w, w, 4", 11)]
)
@pytest.mark.parametrize("name", ["run", "grow"])
def test_a_block_whose_edges_are_computed_from_a_size_has_no_more_threads_than_fit(
    project, block, most, name
):
    (project / "k.cu").write_text(
        "__global__ void grow(const float* x, float* y, int m, int w) {\n"
        "  y[(blockIdx.x * 2 * w + threadIdx.y) * 2 * w + threadIdx.x] = x[blockIdx.x * w];\n}\n"
        "void run(const float* x, float* y, int m, int w) {\n"
        f"  dim3 edges({block});\n  grow<<<m, edges>>>(x, y, m, w);\n}}\n"
    )
    said = ["x=[m, w]", "y=[m, 2 * w, 2 * w]", "m=axis", "w=axis", "reference"]
    init_project("k.cu", kernel=name, name="k", answers=said)
    sizes = load_kernel(str(project / "kernels/k")).kernel.workloads

    assert max(each["w"] for each in sizes.values()) <= most


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        ("long unsigned int", "int64"),
        ("unsigned long int", "int64"),
        ("long long unsigned", "int64"),
        ("int unsigned", "int32"),
        ("short int", "int16"),
        ("char unsigned", "uint8"),
        ("char signed", "int8"),
    ],
)
def test_the_words_of_an_integer_type_may_have_any_order(project, kind, dtype):
    (project / "k.cu").write_text(
        f"__global__ void k(const float* x, {kind}* y, {kind} n) {{\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) y[i] = x[i] > 0;\n}\n"
    )
    init_project("k.cu")

    assert f"name: y, shape: [n], dtype: {dtype}}}" in (
        project / "kernels/k/kernel.yaml"
    ).read_text().replace("[FILL_IN]", "[n]")


@pytest.mark.parametrize(("first", "guess"), [("32", "tile=32 - k + 1"), ("pick(k)", "tile=?")])
def test_a_guess_names_no_local_variable_of_the_host(project, first, guess):
    (project / "k.cu").write_text(
        "__global__ void k(const float* x, float* y, int n, int k, int tile) {\n"
        "  int i = blockIdx.x * tile + threadIdx.x;\n"
        "  if (threadIdx.x < tile && i < n) y[i] = x[i] * k;\n}\n"
        f"int main() {{\n  float *x, *y; int n = 999, k = 3, wide = {first};\n"
        "  int tile = wide - k + 1;\n  k<<<(n + tile - 1) / tile, wide>>>(x, y, n, k, tile);\n}\n"
    )
    asked = [line.partition("  #")[0] for line in init_project("k.cu").to_fill]

    assert guess in asked


@pytest.mark.parametrize("byte", ["-1", "0xff", "255"])
@pytest.mark.parametrize("more", ["", "other<<<1, 64>>>(m, n);"])
def test_integers_that_the_host_sets_to_minus_1_have_that_for_a_guess(project, byte, more):
    host = f"cudaMemset(m, {byte}, n * 4); {more}"
    text = CLEARED.format(kind="int*", name="m", host=host, code="if (m[i] < 0) m[i] = y[i];")
    (project / "k.cu").write_text(text)
    asked = init_project("k.cu", kernel="k").to_fill
    init_project("k.cu", kernel="k", answers=["m.fill"])

    assert any(line.startswith("m.fill=integers 0 from -1") for line in asked)
    yaml = (project / "kernels/k/kernel.yaml").read_text()
    assert 'fill: integers, scale: "0", low: -1' in yaml


def test_the_first_line_of_a_notebooks_cell_is_told_first(project):
    body = "__global__ void k(float* x, int n) { if (threadIdx.x < n) x[threadIdx.x] *= 2; }\n"
    (project / "k.cu").write_text(f'%%cuda\n#include "absent.h"\n{body}')
    told = init_project("k.cu").warnings

    assert told[0] == "k.cu begins with %%cuda, a line of a notebook and no C++: delete it"


def test_a_header_of_the_compiler_itself_is_not_missing(project):
    body = "__global__ void k(float* x, int n) { if (threadIdx.x < n) x[threadIdx.x] *= 2; }\n"
    (project / "k.cu").write_text(f"#include <bits/stdc++.h>\n{body}")

    assert not init_project("k.cu").warnings
