"""What kb init drafts where a kernel is chosen before its launch, or stands in a header."""

import re

import pytest

from kernelkb.actions.init.init_project import init_project
from kernelkb.actions.init.init_source import summarize_source
from kernelkb.errors import BadValueError
from kernelkb.loading.kernels import load_kernel
from kernelkb.scaffold.answers import read_said
from kernelkb.scaffold.cpp.source import summarize_included

COPIES = """\
import torch, triton, triton.language as tl


@triton.jit
def _fast(x, y, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + at, tl.load(x + at, mask=at < n), mask=at < n)


@triton.jit
def _slow(x, y, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)


TABLE = {"fast": _fast, "slow": _slow}


def copy(x, y, how):
    n = x.numel()
"""
ROWS = """\
template <int B>
__global__ void scale_rows(const float* x, const float* s, float* y, int rows, int cols) {
  int r = blockIdx.x;
  for (int c = threadIdx.x; c < cols; c += B) y[r * cols + c] = x[r * cols + c] * s[r];
}
"""
LAUNCH = """\
inline void run(const float* x, const float* s, float* y, int rows, int cols) {
  scale_rows<128><<<rows, 128>>>(x, s, y, rows, cols);
}
"""


@pytest.mark.parametrize(
    "lines",
    [
        "    k = _fast if how else _slow\n    k[(n,)](x, y, n, B=64)\n",
        "    k = _slow\n    if how:\n        k = _fast\n    k[(n,)](x, y, n, B=64)\n",
        "    run = (_fast if how else _slow)[(n,)]\n    run(x, y, n, B=64)\n",
        "    TABLE[how][(n,)](x, y, n, B=64)\n",
        "    k = TABLE.get(how)\n    run = k[(n,)]\n    run(x, y, n, B=64)\n",
    ],
)
def test_of_kernels_that_are_chosen_each_may_run_and_where_they_differ_is_asked(lines):
    function = summarize_source("k.py", COPIES + lines).functions[0]
    x, y = function.parameters[:2]

    assert sorted(function.launches) == ["_fast", "_slow"]
    assert (x.role, x.is_certain) == ("input", True)
    assert (y.role, y.is_read, y.is_certain) == ("output", True, False)


def test_a_launch_that_was_bound_to_its_grid_is_one():
    text = COPIES + "    run = _fast[(n,)]\n    run(x, y, n, B=64)\n"
    function = summarize_source("k.py", text).functions[0]

    assert function.launches == ("_fast",)
    assert [(p.role, p.is_certain) for p in function.parameters[:2]] == [
        ("input", True),
        ("output", True),
    ]


def test_a_result_of_a_launch_is_no_launch():
    text = COPIES + "    grid = (n,)\n    z = _fast[grid](x, y, n, B=64)\n    z[0](x)\n"

    assert summarize_source("k.py", text).functions[0].launches == ("_fast",)


def test_a_kernel_of_a_header_is_drafted_with_the_launch_of_the_source(project):
    (project / "rows.cuh").write_text(ROWS)
    (project / "app.cu").write_text(
        '#include "rows.cuh"\nint main() {\n  float *x, *s, *y;\n  int rows = 4, cols = 8;\n'
        "  scale_rows<64><<<rows, 64>>>(x, s, y, rows, cols);\n}\n"
    )
    made = init_project("app.cu", answers=["x", "s", "y", "reference"])
    launcher = (project / "kernels/app/launch.cu").read_text()

    assert made.to_fill == ()
    assert made.warnings == ("scale_rows is defined in rows.cuh: lines are those of that file",)
    assert "scale_rows<64><<<rows, 64, 0, " in launcher
    assert "#define main" in launcher


def test_a_launcher_of_a_header_is_drafted_where_the_source_only_calls_it(project):
    (project / "rows.cuh").write_text(ROWS + LAUNCH)
    (project / "app.cu").write_text('#include "rows.cuh"\nint main() { run(0, 0, 0, 4, 8); }\n')
    made = init_project("app.cu", answers=["reference"])

    assert made.to_fill == ()
    assert "  run(const_cast<float*>(x), " in (project / "kernels/app/launch.cu").read_text()


def test_a_kernel_of_a_header_is_chosen_by_its_name_beside_the_sources_own(project):
    (project / "rows.cuh").write_text(ROWS + LAUNCH)
    own = "__global__ void mine(const float* a, float* b, int n) { b[threadIdx.x] = a[n]; }\n"
    (project / "app.cu").write_text('#include "rows.cuh"\n' + own)

    assert init_project("app.cu", name="rows", kernel="run").kernel == "rows"
    with pytest.raises(BadValueError, match="has no kernel 'other'"):
        init_project("app.cu", kernel="other")


def test_headers_without_a_kernel_hold_none():
    assert summarize_included("int main() {}", ["int twice(int x) { return 2 * x; }"]) is None


def test_what_a_run_showed_stays_apart_from_what_was_said(project):
    (project / "k.cu").write_text(ROWS)
    seen = ["x=[rows, cols]", "s=[rows]", "grid=rows", "block=64"]
    init_project("k.cu", run=("./app 3", seen))
    init_project("k.cu", answers=["block=32", "y"])
    text = (project / "kernels/k/kernel.yaml").read_text()
    answers, observed = read_said(text)

    assert "# Observed in a run of: ./app 3\n# Observed: x=[rows, cols]\n" in text
    assert "# Said: block=32\n" in text
    assert "fill: normal}  # shape observed; fill assumed\n" in text
    assert answers["block"] == "32"
    assert (observed.keys, observed.program) == ({"x", "s", "grid"}, "./app 3")


def read_arrays(text, name=""):
    functions = summarize_source("k.py", text).functions
    function = next(f for f in functions if f.name == name or not name)
    return {p.name: p for p in function.parameters if p.role in ("input", "output")}


def test_what_the_grid_of_a_launch_returns_is_no_output():
    text = COPIES + (
        "    z = torch.empty_like(x)\n"
        "    def grid(meta):\n        return (n,)\n"
        "    _fast[grid](x, z, n, B=64)\n    return z\n"
    )

    assert [p.name for p in read_arrays(text).values() if p.role == "output"] == ["z"]


def test_a_method_that_forward_passes_everything_to_keeps_its_first_argument():
    text = COPIES.partition("def copy")[0] + (
        "class Copy(torch.autograd.Function):\n"
        "    @staticmethod\n    def forward(ctx, *args):\n        return Copy._run(*args)\n\n"
        "    @staticmethod\n    def _run(x: torch.Tensor, n: int):\n"
        "        z = torch.empty_like(x)\n        _fast[(n,)](x, z, n, B=64)\n        return z\n"
    )
    function = summarize_source("k.py", text).functions[0]

    assert [p.name for p in function.parameters] == ["x", "n", "z"]


@pytest.mark.parametrize(
    ("lines", "dtype", "shape"),
    [
        ("    z = torch.empty((n, 4), dtype=torch.float32)\n", "float32", ("n", "4")),
        (
            "    if how:\n        z = torch.empty((n, 4), dtype=torch.float32)\n"
            "    else:\n        z = torch.empty((n, 4), dtype=torch.float16)\n",
            None,
            ("n", "4"),
        ),
        (
            "    if how:\n        z = torch.empty((n, 4), dtype=torch.float32)\n"
            "    else:\n        z = torch.empty((n, 8), dtype=torch.float32)\n",
            "float32",
            (),
        ),
        (
            "    z = torch.empty((n, 4), dtype=torch.float32)\n    z = z.to(x.dtype)\n",
            None,
            ("n", "4"),
        ),
    ],
)
def test_an_output_that_is_made_in_two_ways_is_known_only_as_far_as_they_agree(lines, dtype, shape):
    head = COPIES.replace("n = x.numel()", "n, m = x.shape")
    output = read_arrays(f"{head}{lines}    _fast[(n,)](x, z, n, B=64)\n    return z\n")["z"]

    assert (output.dtype, output.shape) == (dtype, shape)


def test_an_output_that_is_cast_when_it_is_returned_has_another_dtype():
    head = COPIES.replace("n = x.numel()", "n, m = x.shape")
    made = "    z = torch.zeros_like(x, dtype=torch.float32)\n    _fast[(n,)](x, z, n, B=64)\n"
    output = read_arrays(f"{head}{made}    return z.to(y.dtype)\n")["out"]

    assert (output.dtype, output.has_own_dtype) == (None, True)


ROW = """\
import torch, triton, triton.language as tl


@triton.jit
def _scale(x, w, y, stride, N, B: tl.constexpr):
    row = tl.program_id(0)
    x += row * stride
    at = tl.arange(0, B)
    mask = at < N
    scaled = tl.load(x + at, mask=mask) * tl.load(w + at, mask=mask)
    tl.store(y + row * stride + at, scaled, mask=mask)


def scale(
    x,
    w,
    k,  # [tokens, heads, 64]
    size,
):
    N = size
    y = torch.empty_like(x)
    _scale[(k.size(0),)](x, w, y, x.stride(0), N, B=64)
    return y
"""


def test_the_size_that_a_mask_compares_with_is_no_whole_shape_where_each_program_has_a_row(project):
    arrays = read_arrays(ROW)
    (project / "k.py").write_text(ROW)
    asked = init_project("k.py").to_fill

    assert (arrays["x"].guess, arrays["w"].guess) == ("", "[N]")
    assert any(line.startswith("k=[tokens, heads, 64]  # a guess; ") for line in asked)


def test_of_two_ranks_in_turn_neither_is_the_shape():
    lines = (
        "    if how:\n        a, b = x.shape\n    else:\n        a, b, c = x.shape\n"
        "    _fast[(n,)](x, y, n, B=64)\n"
    )

    assert read_arrays(COPIES + lines)["x"].shape == ()


def test_a_number_that_one_call_passes_as_an_expression_is_not_known():
    lines = "    _fast[(n,)](x, y, n, B=64)\n"
    calls = (
        "\n\ndef outer(x, y):\n    copy(x, y, 3)\n\n\ndef other(x, y):\n    copy(x, y, len(x))\n"
    )
    function = summarize_source("k.py", COPIES + lines + calls).functions
    how = next(f for f in function if f.name == "copy").parameters[2]

    assert how.value == ""


@pytest.mark.parametrize(
    ("calls", "value"),
    [
        ("def outer(x, y, out=None):\n    copy(x, y, out)\n", "None"),
        ("def outer(x, y, out=None):\n    out = len(x)\n    copy(x, y, out)\n", ""),
        ("def outer(x, y, *, out=None):\n    out, z = len(x), y\n    copy(x, z, out)\n", ""),
    ],
)
def test_a_default_that_the_caller_assigns_to_does_not_reach_what_it_calls(calls, value):
    lines = "    _fast[(n,)](x, y, n, B=64)\n"
    functions = summarize_source("k.py", f"{COPIES}{lines}\n\n{calls}").functions
    how = next(f for f in functions if f.name == "copy").parameters[2]

    assert how.value == value


def test_what_a_function_passes_to_itself_says_nothing_of_its_first_call():
    lines = "    _fast[(n,)](x, y, n, B=64)\n    if n > 64:\n        copy(y, None, True)\n"
    arrays = read_arrays(COPIES + lines)

    assert arrays["y"].role == "output"


def test_a_returned_output_has_another_name_than_the_argument_that_it_is(project):
    text = COPIES.replace("def copy(x, y, how):", "def copy(x, out, how):")
    (project / "k.py").write_text(f"{text}    _fast[(n,)](x, out, n, B=64)\n    return out\n")
    init_project("k.py", kernel="copy")
    drafted = next(project.glob("kernels/*/kernel.yaml")).read_text()
    names = re.findall(r"- {name: (\w+)", drafted)

    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("sizes", "at", "bound"),
    [("int a", "i", 32), ("int a, int b, int c", "(i * b + j) * c + k", 24)],
)
def test_integers_that_may_be_indices_lie_within_the_smallest_axis(project, sizes, at, bound):
    (project / "k.cu").write_text(
        f"__global__ void k(const int* where, float* y, {sizes}) {{\n"
        "  int i = blockIdx.x, j = blockIdx.y, k = threadIdx.x;\n"
        f"  y[{at}] = (float)where[{at}];\n}}\n"
    )
    init_project("k.cu", answers={"where": "[a, b, c]" if "b" in sizes else "[a]"})
    drafted = (project / "kernels/k/kernel.yaml").read_text()

    assert f"dtype: int32, fill: integers, scale: {bound}}}" in drafted


def test_a_radius_is_no_axis(project):
    (project / "k.cu").write_text(
        "__global__ void k(const float* x, float* y, int rows, int cols, int radius) {\n"
        "  int r = blockIdx.y * blockDim.y + threadIdx.y;\n"
        "  int c = blockIdx.x * blockDim.x + threadIdx.x;\n  float sum = 0;\n"
        "  if (r >= rows || c >= cols) return;\n"
        "  for (int i = max(0, r - radius); i <= min(rows - 1, r + radius); ++i)\n"
        "    sum += x[i * cols + c];\n  y[r * cols + c] = sum;\n}\n"
    )
    init_project("k.cu")

    assert "axes: [rows, cols]\n" in (project / "kernels/k/kernel.yaml").read_text()


def test_a_stride_and_nothing_are_no_sizes_of_a_guess(project):
    (project / "k.cu").write_text(
        "__global__ void k(const float* x, float* y, int n, int row_stride) {\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "  if (i < n) y[i] = x[blockIdx.y * row_stride + i];\n}\n"
    )

    assert not any(
        "stride" in line.partition("#")[0].partition("=")[2]
        for line in init_project("k.cu").to_fill
    )


@pytest.mark.parametrize(
    ("size", "shape"),
    [
        ("x.shape[0]", ("n",)),
        ("(x.size(1), 4)", ("m", "4")),
        ("x.shape", ("n", "m")),
        ("x.shape[:-1]", ()),
        ("y.shape[0]", ()),
        ("x.numel()", ()),
    ],
)
def test_what_is_made_as_long_as_one_dimension_is_not_like_the_whole_array(size, shape):
    head = COPIES.replace("n = x.numel()", "n, m = x.shape")
    made = f"    z = torch.empty({size}, dtype=x.dtype)\n    _fast[(n,)](x, z, n, B=64)\n"

    assert read_arrays(f"{head}{made}    return z\n")["z"].shape == shape


@pytest.mark.parametrize(
    ("made", "dtype", "shape"),
    [
        ("torch::empty_like(x)", "float32", ("n", "m")),
        ("torch::empty_like(x, x.options().dtype(torch::kInt8))", "int8", ("n", "m")),
        ("torch::empty(x.sizes(), torch::TensorOptions().dtype(torch::kInt8))", "int8", ("n", "m")),
        ("torch::zeros({m, n}, x.options())", "float32", ("m", "n")),
        ("x.new_zeros({m, n})", "float32", ("m", "n")),
        ("torch::zeros({m, n}, options)", "int32", ("m", "n")),
        ("torch::zeros({m, n}, x.options().dtype(wanted))", None, ("m", "n")),
        ("torch::zeros({m, n})", None, ("m", "n")),
    ],
)
def test_what_an_extension_makes_has_the_type_and_shape_that_the_statement_says(made, dtype, shape):
    text = (
        "#include <torch/extension.h>\n"
        "__global__ void k(const float* x, void* y, int n, int m) {\n"
        "  int i = blockIdx.x;\n"
        "  for (int j = threadIdx.x; j < m; j += 32) ((char*)y)[i * m + j] = x[i * m + j];\n}\n"
        "torch::Tensor f(torch::Tensor x, torch::ScalarType wanted) {\n"
        "  int n = x.size(0), m = x.size(1);\n  TORCH_CHECK(x.dim() == 2);\n"
        "  auto options = torch::dtype(torch::kInt32).device(x.device());\n"
        f"  auto y = {made};\n"
        "  k<<<n, 32>>>(x.data_ptr<float>(), y.data_ptr(), n, m);\n  return y;\n}\n"
    )
    functions = summarize_source("k.cu", text).functions
    output = next(f for f in functions if f.name == "f").parameters[-1]

    assert (output.dtype, output.shape) == (dtype, shape)


PLACED = """\
__global__ void place(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i];
}
"""


@pytest.mark.parametrize(
    ("grid", "written"),
    [
        ("(n / 32, 2)", "dim3(n / 32, 2)"),
        ("[n / 32, 2]", "dim3(n / 32, 2)"),
        ("dim3((n + 31) / 32, 2)", "dim3((n + 31) / 32, 2)"),
        ("(n + 31) / 32", "(n + 31) / 32"),
    ],
)
def test_a_grid_that_is_said_as_a_list_is_a_dim3(project, grid, written):
    (project / "k.cu").write_text(PLACED)
    init_project("k.cu", answers=[f"grid={grid}", "block=(16, 16)", "reference"])

    launcher = (project / "kernels/k/launch.cu").read_text()
    assert f"<<<{written}, dim3(16, 16), 0, " in launcher


@pytest.mark.parametrize(
    "said", ["block=16, 16", "grid=n / (32, 2)", "grid=dim3((8, 4), 2)", "shared=(16, 4)"]
)
def test_what_cpp_would_take_only_the_last_part_of_is_refused(project, said):
    (project / "k.cu").write_text(PLACED)

    with pytest.raises(BadValueError, match="is no single number or dim3"):
        init_project("k.cu", answers=["grid=8", "block=64", said])


@pytest.mark.parametrize(
    ("standard", "kept"),
    [
        ("c++03", []),
        ("gnu++14", []),
        ("c++0x", []),
        ("c++17", ["-std=c++17"]),
        ("c++2a", ["-std=c++2a"]),
    ],
)
def test_a_standard_that_a_launcher_cannot_be_compiled_with_is_left_out(project, standard, kept):
    (project / "k.cu").write_text(PLACED)
    (project / "Makefile").write_text(f"NVCC_FLAGS = -O2 -std={standard}\n")
    made = init_project("k.cu")
    text = (project / "kernels/k/kernel.yaml").read_text()

    assert re.findall(r'"(-std=[^"]*)"', text) == kept
    told = f"-std={standard} of the project's build was left out: C++17 is compiled"
    assert (told in made.warnings) is not bool(kept)


def test_a_number_is_not_said_as_a_list(project):
    (project / "k.cu").write_text(PLACED.replace("int n)", "int n, float a)"))

    with pytest.raises(BadValueError, match="a is no array"):
        init_project("k.cu", answers=["a=[n]"])


def test_macros_of_a_source_do_not_replace_the_parameters_of_its_launcher(project):
    (project / "sizes.h").write_text("#define n 512  // columns\n")
    (project / "k.cu").write_text(
        "template <int B>\n__global__ void turn(const float* x, float* y, int rows, int n,"
        " float gain) {\n  int i = blockIdx.x, j = threadIdx.x;\n"
        "  if (i < rows && j < n) y[j * rows + i] = gain * x[i * n + j];\n}\n"
        '#include "sizes.h"\n#define rows 96\n#define gain 0.5f\n#define WIDE(n) (2 * n)\n'
        "int main() { turn<rows><<<rows, n>>>(0, 0, rows, n, gain); }\n"
    )
    init_project("k.cu")
    launcher = (project / "kernels/k/launch.cu").read_text()

    assert launcher.partition('extern "C"')[0].count("#undef") == 4  # with main
    assert "#undef rows\n" in launcher
    assert "const float gain = 0.5f;" in launcher
    assert "turn<96><<<rows, n, 0, " in launcher


@pytest.mark.parametrize(
    ("lines", "written"),
    [
        ("int b = 4; b = n / 64;", "int b = n / 64;"),
        ("int b = 4; if (n) b = 8; b = n / 64;", "int b = n / 64;"),
        ("int b = 4; { int b = n / 64;", "int b = n / 64;"),
        ("int t = 2, b = n / t; t = 4; b = n / t;", "int b = n / t;"),
        ("int b = 4; b *= 2;", "const int b = FILL_IN;"),
        ("int b = 4; b = b + n;", "const int b = FILL_IN;"),
        ("int b = 4; b++;", "const int b = FILL_IN;"),
        ("int t = 2, b = n / t; t = 4;", "const int b = FILL_IN;"),
        ("for (int b = n; b > 1; b /= 2)\n", "const int b = FILL_IN;"),
        ("int b = 4;\nif (n) b = 8;\n", "const int b = FILL_IN;"),
    ],
)
def test_the_last_value_before_a_launch_counts_and_one_that_is_not_plain_is_asked(
    project, lines, written
):
    end = "b = 16; }" if "{" in lines else "b = 16;"
    (project / "k.cu").write_text(
        f"{PLACED}int main(int c, char** v) {{\n  int n = atoi(v[1]);\n  {lines}\n"
        f"  place<<<b, 64>>>(0, 0, n);\n  {end if 'for' not in lines else ''}\n}}\n"
    )
    init_project("k.cu")

    assert written in (project / "kernels/k/launch.cu").read_text()


def test_a_local_variable_of_a_launch_is_no_axis(project):
    (project / "k.cu").write_text(
        PLACED + "int main() { int b = 4; b *= 2; place<<<b, 64>>>(0, 0, 256); }\n"
    )
    with pytest.raises(BadValueError, match="b=axis: it is no parameter of the kernel"):
        init_project("k.cu", answers=["b=axis"])


def test_the_files_that_a_definition_needs_in_turn_are_compiled_too(project):
    (project / "lib").mkdir()
    (project / "k.cu").write_text("float one(float);\n" + PLACED.replace("x[i];", "one(x[i]);"))
    (project / "lib/two.h").write_text("float two(float);\n")
    (project / "one.cu").write_text(
        '#include "two.h"\nfloat three(float);\nfloat one(float x) { return two(x) + three(x); }\n'
    )
    (project / "lib/two.cpp").write_text("float two(float x) { return x; }\n")
    made = init_project("k.cu")
    text = (project / "kernels/k/kernel.yaml").read_text()

    assert "also: [one.cu, lib_two.cpp]\n" in text
    assert '"-I../../lib"' in text
    assert made.warnings == (f"no file below {project} defines three",)


def test_what_stands_before_a_source_where_it_is_included_stands_there_in_a_launcher(project):
    (project / "src").mkdir()
    (project / "src/help.h").write_text("float twice(float);\n#define TWICE(v) twice(v)\n")
    (project / "src/help.cu").write_text("float twice(float x) { return 2 * x; }\n")
    (project / "src/k.cu").write_text(PLACED.replace("x[i];", "TWICE(x[i]);"))
    (project / "src/app.cu").write_text(
        '#include <cstdio>\n#include "help.h"\n#include "gone.h"\n#include "k.cu"\n'
        "int main() { place<<<4, 64>>>(0, 0, 256); }\n"
    )
    init_project("src/k.cu")
    launcher = (project / "kernels/k/launch.cu").read_text()

    lines = '#include <cstdio>\n#include "../../src/help.h"\n#include "../../src/k.cu"\n'
    assert lines in launcher
    assert "also: [src_help.cu]" in (project / "kernels/k/kernel.yaml").read_text()


FILE_OF_TENSORS = """\
#include <torch/extension.h>
#include "ops.h"
at::Tensor twice(const at::Tensor& x) { return run_twice(x); }
"""


@pytest.mark.parametrize(
    "bound",
    ['&twice, "doc"', '"doc", &twice', 'torch::wrap_pybind_function(twice), py::arg("x")'],
)
def test_a_file_that_only_exports_a_function_names_the_file_that_defines_it(project, bound):
    head = "at::Tensor twice(const at::Tensor& x);\nat::Tensor run_twice(const at::Tensor& x);\n"
    (project / "ops.h").write_text(head)
    (project / "api.cpp").write_text(
        f'#include "ops.h"\nPYBIND11_MODULE(NAME, m) {{ m.def("forward", {bound}); }}\n'
    )
    (project / "ops.cpp").write_text(FILE_OF_TENSORS)
    (project / "run.cu").write_text("at::Tensor run_twice(const at::Tensor& x) { return x; }\n")

    with pytest.raises(BadValueError, match=r"exports twice, .*: kb init ops.cpp --kernel twice"):
        init_project("api.cpp")
    init_project("ops.cpp", kernel="twice")
    text = (project / "kernels/ops/kernel.yaml").read_text()
    assert "target: cuda\n" in text
    assert "also: [run.cu]\n" in text


def test_a_function_of_a_module_with_another_name_is_drafted_by_its_own():
    text = (
        "#include <torch/extension.h>\nat::Tensor twice(const at::Tensor& x) { return x; }\n"
        'PYBIND11_MODULE(NAME, m) { m.def("forward", &twice, "doc"); }\n'
    )

    assert [each.name for each in summarize_source("ops.cpp", text).functions] == ["twice"]


def test_a_file_that_only_exports_what_no_file_defines_says_so(project):
    (project / "api.cpp").write_text('PYBIND11_MODULE(NAME, m) { m.def("f", &twice); }\n')

    with pytest.raises(BadValueError, match=f"no file below {project} defines it"):
        init_project("api.cpp")


@pytest.mark.parametrize(
    ("declared", "kind"),
    [
        ("typedef struct { int rows, cols; float* at; } Grid;", "Grid"),
        ("typedef struct grid { int rows, cols; float* at; } Grid, *GridPointer;", "struct grid"),
        ("typedef struct grid { int rows, cols; float* at; } Grid;", "const Grid"),
    ],
)
def test_a_structure_that_a_typedef_names_is_taken_apart(project, declared, kind):
    (project / "k.cu").write_text(
        f"{declared}\n__global__ void copy({kind} a, {kind} b) {{\n"
        "  int i = blockIdx.x, j = threadIdx.x;\n  if (i < b.rows && j < b.cols)"
        " b.at[i * b.cols + j] = a.at[i * a.cols + j];\n}\n"
    )
    made = init_project("k.cu")
    text = (project / "kernels/k/kernel.yaml").read_text()

    assert "name: b_at, shape: [b_rows, b_cols], dtype: float32}" in text
    assert not any("role" in each for each in made.to_fill)


def test_a_list_of_tensors_that_another_file_makes_has_as_many_outputs_as_there(project):
    head = "#include <torch/extension.h>\nstd::vector<at::Tensor> run_split(const at::Tensor& x)"
    (project / "ops.cpp").write_text(
        f"{head};\nstd::vector<at::Tensor> split(const at::Tensor& x) {{ return run_split(x); }}\n"
        'PYBIND11_MODULE(NAME, m) { m.def("split", &split); }\n'
    )
    body = "{ auto a = at::empty_like(x); auto b = at::empty({4}); return {a, b, x}; }\n"
    (project / "run.cu").write_text(f"{head} {body}")
    init_project("ops.cpp")
    text = (project / "kernels/ops/kernel.yaml").read_text().partition("outputs:")[2]

    assert re.findall(r"name: (\w+), shape: \[FILL_IN\]", text) == ["a", "b", "out2"]


@pytest.mark.parametrize(
    ("lines", "roles"),
    [
        ("    _fast[(n,)](x, y, n, B=64)\n    return y\n", [("input", False), ("output", False)]),
        ("    _fast[(n,)](x, x, n, B=64)\n    return x\n", [("output", True)]),
        (
            "    y = y.contiguous()\n    _fast[(n,)](x, y, n, B=64)\n    return y\n",
            [("input", False), ("input", False), ("output", False)],
        ),
        (
            "    _fast[(n,)](x, y, n, B=64)\n    return y, y.sum()\n",
            [("input", False), ("input", False), ("output", False), ("output", False)],
        ),
    ],
)
def test_an_argument_that_a_function_writes_and_returns_is_its_output(lines, roles):
    arrays = read_arrays(COPIES.replace("(x, y, how)", "(x: torch.Tensor, y, how)") + lines)

    assert [(p.role, p.is_read) for p in arrays.values() if p.name != "how"] == roles


@pytest.mark.parametrize(
    ("lines", "is_needed"),
    [
        ("    if how and z is None:\n        raise ValueError\n", True),
        (
            "    if how:\n        if x is None or z is None:\n            raise ValueError\n",
            True,
        ),
        ("    assert z is not None, 'z'\n", True),
        ("    n = z.shape[0]\n", True),
        ("    _fast[(n,)](z, y, n, B=64)\n", True),
        ("    if z is not None:\n        _fast[(n,)](z, y, n, B=64)\n", False),
        ("    if z is None and how is None:\n        raise ValueError\n", False),
        ("    z = torch.ones_like(x) if z is None else z\n    n = z.shape[0]\n", False),
        ("    z = z or x\n    n = z.shape[0]\n", False),
    ],
)
def test_an_array_that_is_nothing_by_default_is_asked_for_where_the_code_needs_it(lines, is_needed):
    text = COPIES.replace("(x, y, how)", "(x, y, how=1, z: torch.Tensor = None, w=None)")
    function = summarize_source("k.py", f"{text}{lines}    _fast[(n,)](x, y, n, B=64)\n").functions[
        0
    ]
    roles = {p.name: (p.role, p.value) for p in function.parameters}

    assert roles.get("z") == (("input", "") if is_needed else None)
    assert roles.get("how") == (("number", "1") if is_needed else None)
    assert "w" not in roles


@pytest.mark.parametrize(
    ("head", "role"),
    [("z: torch.Tensor | None = None", "input"), ("z: str | None = None", "number")],
)
def test_what_a_function_refuses_as_none_has_the_role_of_its_type(head, role):
    lines = "    if z is None:\n        raise ValueError\n    _fast[(n,)](x, y, n, B=64)\n"
    text = COPIES.replace("how):", f"{head}):") + lines
    last = summarize_source("k.py", text).functions[0].parameters[-1]

    assert (last.name, last.role, last.value) == ("z", role, "")


@pytest.mark.parametrize(
    ("line", "dtypes"),
    [
        ("v = (tl.load(y + at) >> 4) & 15", "uint8|int8|int32|int64"),
        ("p = y + at\n    v = tl.load(p)\n    v = v & 15", "uint8|int8|int32|int64"),
        ("v = tl.load(y + at)\n    v = tl.where(v, 1.0, 0.0)", "bool|uint8|int8|int32|int64"),
        ("v = tl.load(y + at)\n    v = tl.load(x + at, mask=~v)", "bool|uint8|int8|int32|int64"),
        ("v = tl.load(y + at)\n    v = tl.load(x + v * 2)", "int64|int32"),
        ("v = tl.load((y + at).to(tl.pointer_type(tl.float16)))", "int8|uint8|int32|bool|float64"),
        ("v = tl.load(y + at) == 0", "int8|uint8|int32|bool|float64"),
        ("v = tl.load(y + at).to(tl.float32) + 1", ""),
        ("v = tl.load(y + at, mask=(at < n) & (at > 0)) > 0", ""),
    ],
)
def test_what_a_kernel_does_with_elements_tells_that_they_are_no_floats(project, line, dtypes):
    kernel = COPIES.partition("@triton.jit\ndef _slow")[0]
    stored = kernel.replace(
        "tl.store(y + at, tl.load", f"{line}\n    tl.store(out + at, v + tl.load"
    )
    text = stored.replace("_fast(x, y, n", "_fast(x, y, out, n") + (
        "def pick(x: torch.Tensor, y: torch.Tensor):\n    out = torch.empty_like(x)\n"
        "    _fast[(8,)](x, y, out, 8, B=64)\n    return out\n"
    )
    (project / "k.py").write_text(text)
    asked = {line.partition("=")[0]: line for line in init_project("k.py").to_fill}

    assert read_arrays(text)["y"].dtypes.startswith(dtypes)
    assert bool(dtypes) is ("y.dtype" in asked)
    assert not dtypes or asked["y.dtype"].startswith(f"y.dtype={dtypes.partition('|')[0]}  # or ")


@pytest.mark.parametrize(
    ("made", "returned", "shape", "guess"),
    [
        ("torch.empty_like(x)", "z.view(a, b)", ("a", "b"), ""),
        ("torch.empty(n)", "z.reshape((b, 4))", ("b", "4"), ""),
        ("torch.empty(n)", "z.view(x.shape[0], b)", ("a", "b"), ""),
        ("torch.empty(n)", "z.view(a, other)", (), "[a, other]"),
        ("torch.empty((a, wide))", "z", (), ""),
        ("torch.empty((a, other))", "z", (), "[a, other]"),
    ],
)
def test_an_output_has_the_sizes_it_is_viewed_with_and_no_guess_has_a_computed_one(
    made, returned, shape, guess
):
    lines = (
        f"    a, b = x.shape\n    wide = a * b\n    z = {made}\n"
        f"    _fast[(n,)](x, z, n, B=64)\n    return {returned}\n"
    )
    (output,) = [p for p in read_arrays(COPIES + lines).values() if p.role == "output"]

    assert (output.shape, output.guess) == (shape, guess)


def test_a_size_that_the_function_computes_is_no_guess_of_a_shape():
    guesses = [
        read_arrays(ROW.replace("    N = size\n", f"    N = {value}\n"))["w"].guess
        for value in ("size", "size * 2", "len(k) // 2 + size")
    ]

    assert guesses == ["[N]", "", ""]


STENCIL = """\
__global__ void blur(const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  TEST
}
"""


@pytest.mark.parametrize(
    ("test", "is_asked"),
    [
        ("if (i > 0 && i < n - 1) out[i] = in[i - 1] + in[i + 1];", True),
        ("if (i >= 1 && i < n) { out[i] = in[i - 1]; }", True),
        ("if (i < 2 || i >= n - 2) return;\n  out[i] = in[i - 2] + in[i + 2];", True),
        ("if (i == 0 || i >= n) return;\n  out[i] = in[i - 1];", True),
        ("if (i < n) out[i] = i > 0 ? in[i - 1] : 0.0f;", False),
        ("if (i < 0 || i >= n) return;\n  out[i] = in[i];", False),
        ("if (i >= n) return;\n  if (i > 0) out[i] = in[i - 1]; else out[i] = 0.0f;", False),
        ("if (threadIdx.x > 0) return;\n  out[blockIdx.x] = in[blockIdx.x];", False),
        ("for (; i >= 1 && i < n - 1; i += 256) out[i] = in[i - 1] + in[i + 1];", True),
        ("int k;\n  for (k = i; k < n - 1; k += 256) { out[k] = in[k] + in[k + 1]; }", True),
        ("while (0 < i && i < n) {\n    out[i] = in[i - 1];\n    i += 256;\n  }", True),
        ("int at;\n  if (i < 1 || i >= n - 1) return;\n  at = i;\n  out[at] = in[at - 1];", True),
        ("for (int k = i; k < n; k += 256) out[k] = in[k];", False),
        ("for (int k = i + 1; k < n; k += 256) out[k - 1] = in[k];", False),
        ("for (int k = n - 1; k > -1; k--) out[k] = in[k];", False),
        ("for (int k = n; k > 0; --k) out[k - 1] = in[k - 1];", False),
        ("for (int k = i; k < n - 1; k += 256) out[k] = in[k];\n  out[n - 1] = 0.0f;", False),
        ("for (int s = 64; s > 0; s >>= 1) if (i < s) out[i] = in[i];", False),
        ("int a = i * 4;\n  for (int k = a; k < a + 4; k++) out[k] = in[k];", False),
        ("int w = n;\n  for (int k = i; k < w; ++k) out[i * w + k] = in[k];", False),
        ("int w = n;\n  if (w <= i) return;\n  out[i * w] = in[i];", False),
        ("int w = n;\n  if (w > i) out[i * w] = in[i];", False),
    ],
)
def test_an_output_whose_ends_a_kernel_may_leave_is_asked_for_its_role(project, test, is_asked):
    (project / "k.cu").write_text(STENCIL.replace("TEST", test))

    asked = [each for each in init_project("k.cu").to_fill if "out.role" in each]

    assert len(asked) == is_asked
    assert all("out.role=both" in each for each in asked)


ROW_SUMS = """\
__global__ void sum(const int* begin, const int* column, const float* value, const float* x,
                    float* y, int rows) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float total = 0;
  BODY
  y[row] = total;
}
void run(const int* offsets, const int* column, const float* value, const float* x, float* y,
         int rows, cudaStream_t stream) {
  sum<<<(rows + 127) / 128, 128, 0, stream>>>(offsets, column, value, x, y, rows);
}
"""
ROW_LOOPS = [
    "for (int at = begin[row]; at < begin[row + 1]; at++) total += value[at] * x[column[at]];",
    "const int first = begin[row], last = begin[row + 1];\n"
    "  for (int at = first; at < last; ++at) total += value[at] * x[column[at]];",
    "int count = begin[1 + row] - begin[row];\n"
    "  for (int k = 0; k < count; ++k) { int at = begin[row] + k; total += value[at] * x[at]; }",
]


@pytest.mark.parametrize("body", ROW_LOOPS)
def test_where_rows_begin_is_drawn_as_ascending_offsets(project, body):
    (project / "k.cu").write_text(ROW_SUMS.replace("BODY", body))
    asked = init_project("k.cu").to_fill
    answers = ["column=[count]", "value=[count]", "x=[columns]", "reference=mine"]

    init_project("k.cu", answers=[*answers, "offsets=[rows + 1]"])

    assert any("offsets=[rows + 1]" in each for each in asked)
    text = (project / "kernels/k/kernel.yaml").read_text()
    assert "name: offsets, shape: [rows + 1], dtype: int32, fill: offsets, scale: count}" in text


def test_neighbours_of_an_element_are_no_offsets(project):
    (project / "k.cu").write_text(
        "__global__ void k(const int* x, const float* w, float* y, int n) {\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "  if (i < n) y[i] = w[i] * (x[i] + x[i + 1]);\n}\n"
    )
    assert any("x=[n] " in each for each in init_project("k.cu").to_fill)


HEAT = """\
#define AT(width, x, y) ((y) * (width) + (x))
__global__ void heat(int wide, int high, const float* now, float* next) {
  int here, left;
  float change;
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  for (; y >= 1 && y < high - 1; y += gridDim.y * blockDim.y) {
    for (; x >= 1 && x < wide - 1; x += gridDim.x * blockDim.x) {
      here = AT(wide, x, y);
      left = AT(wide, x - 1, y);
      change = now[left] - now[here];
      next[here] = now[here] + change;
    }
  }
}
"""


def list_asked(project, text):
    (project / "k.cu").write_text(text)
    return {line.split("=")[0]: line for line in init_project("k.cu").to_fill}


def test_a_variable_that_is_set_once_after_its_declaration_is_its_value(project):
    asked = list_asked(project, HEAT)

    assert asked["now"].startswith("now=[high, wide]  # a guess")
    assert asked["next"].startswith("next=[high, wide]  # a guess")
    assert asked["next.role"].startswith("next.role=both")


@pytest.mark.parametrize(
    "change",
    [
        ("left = AT(wide, x - 1, y);", "left = here; here = left + 1;"),
        ("left = AT(wide, x - 1, y);", "left = here; here++;"),
        ("here = AT(wide, x, y);", "here = here + AT(wide, x, y);"),
        ("left = AT(wide, x - 1, y);", "left = here; here += 1;"),
        ("left = AT(wide, x - 1, y);", "left = here; move(&here);"),
        ("int here, left;", "int here, left;\n  next[here] = 0.0f;"),
    ],
)
def test_a_variable_that_is_set_again_or_used_before_is_not_its_value(project, change):
    asked = list_asked(project, HEAT.replace(*change))

    assert asked["next"].startswith("next=?")


@pytest.mark.parametrize(
    ("test", "shape"),
    [
        ("if (i >= 1 && i < n)", "[n]"),
        ("if (i >= 2 && i < 64)", "[64]"),
        ("if (i > 3 || i < n)", "[n]"),
    ],
)
def test_a_number_where_an_index_begins_is_no_size(project, test, shape):
    asked = list_asked(project, STENCIL.replace("TEST", f"{test} out[i] = in[i];"))

    assert f"in_={shape} " in asked["in_"]


def test_a_pointer_that_is_set_once_after_its_declaration_is_part_of_its_array(project):
    text = ROWS.replace("template <int B>\n", "").replace("+= B", "+= 128")
    text = text.replace("y[r * cols + c] =", "out[c] =") + LAUNCH.replace("<128>", "")
    for begin in (
        "int r = blockIdx.x; float* out = y + r * cols;",
        "int r; float* out; r = blockIdx.x; out = y + r * cols;",
    ):
        assert list(list_asked(project, text.replace("int r = blockIdx.x;", begin))) == [
            "reference"
        ]


def test_a_pointer_to_the_inside_that_is_passed_on_proves_no_shape(project):
    text = ROWS.replace("template <int B>\n", "").replace("+= B", "+= 128")
    text = text.replace("int r = blockIdx.x;", "int r = blockIdx.x; float* out = y + r * cols;")
    text = text.replace("y[r * cols + c] =", "store(out + c, s[r]); out[c] =")
    asked = list_asked(project, text + LAUNCH.replace("<128>", ""))

    assert asked["y"].startswith("y=[rows, cols]  # a guess")


POINTS = """\
__global__ void k(const float* points, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < LIMIT) y[i] = READ;
}
void run(const float* points, float* y, int n, cudaStream_t s) {
  k<<<(n + 127) / 128, 128, 0, s>>>(points, y, n);
}
"""


@pytest.mark.parametrize(
    ("limit", "read", "shape"),
    [
        ("n", "points[3 * i] + points[3 * i + 1] * points[3 * i + 2]", "[n, 3]"),
        ("n", "points[i * 4 + 3]", "[n, 4]"),
        ("n / 2", "points[2 * i] + points[2 * i + 1]", "[n]"),
    ],
)
def test_elements_that_belong_together_are_a_dimension(project, limit, read, shape):
    (project / "k.cu").write_text(POINTS.replace("LIMIT", limit).replace("READ", read))

    asked = [each for each in init_project("k.cu").to_fill if "points=" in each]

    text = (project / "kernels/k/kernel.yaml").read_text()
    assert f"points, shape: {shape}" in text or any(f"points={shape} " in one for one in asked)


def test_a_comma_in_a_string_does_not_split_the_arguments_of_a_macro(project):
    (project / "k.cu").write_text(
        "#define CHECK(expression, message) do { if (!(expression)) throw message; } while (0)\n"
        + ROW_SUMS.replace("BODY", ROW_LOOPS[0]).replace(
            "  sum<<<", '  CHECK(rows > 0, "rows, one at least, (or) more");\n  sum<<<'
        )
    )

    assert any("offsets=[rows + 1]" in each for each in init_project("k.cu").to_fill)


def test_offsets_into_what_is_not_seen_are_asked_for_their_end(project):
    body = (
        "int at = begin[row], end = begin[row + 1];\n"
        "  for (; at < end; ++at) { float one = *(value + at); total += one; }"
    )
    (project / "k.cu").write_text(ROW_SUMS.replace("BODY", body))

    asked = [each for each in init_project("k.cu").to_fill if each.startswith("offsets.fill=")]
    answers = ["offsets=[rows + 1]", "offsets.fill=offsets 900", "column=[count]", "x=[count]"]
    after = init_project("k.cu", answers=answers)

    assert len(asked) == 1
    assert not any(each.startswith("offsets") for each in after.to_fill)
    text = (project / "kernels/k/kernel.yaml").read_text()
    assert "shape: [rows + 1], dtype: int32, fill: offsets, scale: 900}" in text


WINDOWS = """\
import torch
import triton
import triton.language as tl

try:

    @triton.jit
    def window_kernel(x, w, y, N, K, C, C2, HEAD: tl.constexpr):
        at = tl.program_id(0) * HEAD + tl.arange(0, HEAD)
        tl.store(y + at, tl.load(x + at) * tl.load(w + at))

    def window(x, w, y):
        N, C, head = x.shape
        K, C2 = w.shape
        assert C == C2, "channels"
        assert N >= K
        window_kernel[(N,)](x, w, y, N, K, C, C2, HEAD=head)
        return y
except ImportError:
    window = None
"""


def test_sizes_are_those_that_a_source_checks(project):
    (project / "k.py").write_text(WINDOWS)

    init_project("k.py", answers=["y=[N - K + 1]", "y.role=output", "dtype=float32", "reference"])

    kernel = load_kernel(str(project / "kernels/k")).kernel
    assert kernel.inputs[1].shape == ("k", "c")
    for sizes in kernel.workloads.values():
        assert sizes["n"] >= sizes["k"]
        assert sizes["head"].bit_count() == 1


@pytest.mark.parametrize(
    ("grid", "step", "is_asked"),
    [
        ("dim3(8, 4)", "", True),
        ("16", "", True),
        ("16", " * gridDim.x", False),
        ("1", "", False),
        ("(n + 127) / 128", "", False),
    ],
)
def test_a_grid_that_is_the_same_for_all_sizes_is_asked(project, grid, step, is_asked):
    (project / "k.cu").write_text(
        "__global__ void k(const float* x, float* y, int n) {\n"
        f"  int i = blockIdx.x * blockDim.x + threadIdx.x{step and ' + 0 * gridDim.x'};\n"
        "  if (i < n) y[i] = x[i];\n}\n"
        f"int main() {{ float *x, *y; int n = 2048; k<<<{grid}, 128>>>(x, y, n); }}\n"
    )

    asked = {each.partition("=")[0] for each in init_project("k.cu", kernel="k").to_fill}

    assert ("grid" in asked) == is_asked


CONSTANT = """\
namespace eq {
namespace inner {
__constant__ int WIDTH;
__global__ void k(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * WIDTH;
}
}
void run(const float* x, float* y, int n) { SETinner::k<<<(n + 127) / 128, 128>>>(x, y, n); }
}
"""


@pytest.mark.parametrize("kernel", ["k", "run"])
def test_constant_memory_that_a_launch_does_not_set_is_asked(project, kernel):
    (project / "k.cu").write_text(CONSTANT.replace("SET", ""))
    asked = [each.partition("=")[0] for each in init_project("k.cu", kernel=kernel).to_fill]

    init_project("k.cu", kernel=kernel, answers=["WIDTH=3", "reference"])

    launcher = (project / "kernels/k/launch.cu").read_text()
    assert "WIDTH" in asked
    assert "using namespace eq::inner;" in launcher
    assert "kb_WIDTH[] = {3};" in launcher
    assert launcher.index("cudaMemcpyToSymbol(WIDTH") < launcher.index("(const_cast<float*>(x)")


def test_constant_memory_is_set_once_and_so_to_numbers(project):
    (project / "k.cu").write_text(CONSTANT.replace("SET", ""))

    with pytest.raises(BadValueError, match="WIDTH=n: WIDTH is set once for all workloads"):
        init_project("k.cu", kernel="k", answers=["WIDTH=n", "reference"])


def test_constant_memory_that_a_launcher_sets_is_not_asked(project):
    sets = "int w = n; cudaMemcpyToSymbol(inner::WIDTH, &w, sizeof(w)); "
    (project / "k.cu").write_text(CONSTANT.replace("SET", sets))

    assert [each.partition("=")[0] for each in init_project("k.cu", kernel="run").to_fill] == [
        "reference"
    ]


def test_a_kernel_in_a_block_of_c_linkage_is_drafted(project):
    (project / "k.cu").write_text(
        'extern "C" {\n#define W 8\n'
        "__device__ float half_of(float* a) { return a[0] / 2; }\n"
        "__global__ static void step(const float* a, float* b) {\n"
        "  int i = threadIdx.x;\n  if (i < W) b[i] = a[i] * 2;\n}\n"
        "void go(int n) {\n  float *a, *b;\n  cudaMalloc(&a, 4 * W);\n  cudaMalloc(&b, 4 * W);\n"
        "  for (int i = 0; i < n; i++) step<<<1, 64>>>(a, b);\n}\n}\n"
    )

    assert [each.partition("=")[0] for each in init_project("k.cu").to_fill] == ["reference"]
    assert "step<<<" in (project / "kernels/k/launch.cu").read_text()


@pytest.mark.parametrize(
    ("update", "role"),
    [("tl.atomic_add", "starts_as"), ("tl.atomic_max", "starts_as"), ("tl.store", "float32}")],
)
def test_what_an_atomic_function_changes_is_read_too(project, update, role):
    (project / "k.py").write_text(
        "import torch, triton\nimport triton.language as tl\n@triton.jit\n"
        "def count_kernel(x, out, N: tl.constexpr, B: tl.constexpr):\n"
        "    at = tl.program_id(0) * B + tl.arange(0, B)\n"
        "    seen = tl.load(x + at, mask=at < N, other=0)\n"
        f"    {update}(out + seen, 1, mask=at < N)\n"
        "def count(x: torch.Tensor, out: torch.Tensor):\n"
        "    N = x.shape[0]\n    count_kernel[(triton.cdiv(N, 256),)](x, out, N, 256)\n"
    )
    said = ["out.role=output"] if update == "tl.store" else []
    init_project("k.py", answers=["x=[N]", "out=[9]", "dtype=float32", "x.dtype=int64", *said])

    lines = (project / "kernels/k/kernel.yaml").read_text().splitlines()
    assert any("name: out, shape: [9]" in line and role in line for line in lines)


def test_calls_of_make_are_no_flags(project):
    (project / "k.cu").write_text(ROW_SUMS.replace("BODY", "total = K * ROWS;"))
    (project / "Makefile").write_text(
        "FLAGS = -O3 -DROWS=2\nFLAGS += $(if $(K),-DK=$(K),)\nall:\n\tnvcc $(FLAGS) k.cu -o k\n"
    )
    init_project("k.cu")

    text = (project / "kernels/k/kernel.yaml").read_text()
    assert 'flags: ["-DROWS=2"]' in text


@pytest.mark.parametrize(
    ("store", "is_asked"),
    [
        ("float s = x[i];\n  if (s > 1.0f) y[i] = s;", True),
        ("if (x[i] > 1.0f) y[i] = 2.0f;", True),
        ("float s = x[i];\n  if (s > 1.0f) y[i] = s; else y[i] = 0.0f;", False),
        ("bool is_in = i < n;\n  if (is_in) y[i] = x[i];", False),
    ],
)
def test_an_output_that_is_stored_for_some_values_only_is_asked(project, store, is_asked):
    (project / "k.cu").write_text(
        "__global__ void k(const float* x, float* y, int n) {\n"
        f"  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i >= n) return;\n  {store}\n}}\n"
    )

    asked = {each.partition("=")[0] for each in init_project("k.cu").to_fill}

    assert ("y.role" in asked) == is_asked


def test_a_number_that_was_said_is_no_axis_too(project):
    (project / "k.cu").write_text(
        "__global__ void k(const float* x, float* y, int heads, int n) {\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) y[i] = x[i] * heads;\n}\n"
        "void run(const float* x, float* y, int heads, int n, cudaStream_t s) {\n"
        "  k<<<(n + 127) / 128, 128, 0, s>>>(x, y, heads, n);\n}\n"
    )
    init_project("k.cu", answers=["x=[heads, n]", "y=[n]", "heads=16", "reference"])

    text = (project / "kernels/k/kernel.yaml").read_text()
    assert "axes: [n]" in text
    assert "name: x, shape: [16, n]" in text


def test_numbers_that_others_are_computed_from_stand_first(project):
    (project / "k.cu").write_text(
        "__global__ void k(const float* x, float* y, int n, int wide, int pad) {\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "  if (i < n) y[i] = x[i] * wide + pad;\n}\n"
        "void run(const float* x, float* y, int n, int wide, int pad) {\n"
        "  k<<<(n + 255) / 256, 256>>>(x, y, n, wide, pad);\n}\n"
    )
    init_project("k.cu", answers=["wide=2 * pad", "pad=3", "reference"])

    launcher = (project / "kernels/k/launch.cu").read_text()
    assert launcher.index("const int pad = 3;") < launcher.index("const int wide = 2 * pad;")
    with pytest.raises(BadValueError, match="are computed from each other"):
        init_project("k.cu", answers=["wide=2 * pad", "pad=wide"])


def write_two_files(project, mark=""):
    """Write a kernel that calls members of a class which another file defines."""
    (project / "grid.h").write_text(
        f"struct Grid {{ {mark} Grid(int n); {mark} int fit(int i) const; int n; }};\n"
        "struct Other { int fit(int i); };\n"
    )
    (project / "grid.cu").write_text(
        f'#include "grid.h"\n{mark} Grid::Grid(int n) : n(n) {{}}\n'
        f"{mark} int Grid::fit(int i) const {{ return i % n; }}\n"
    )
    where = "__device__ " if mark else ""
    (project / "wrap.cu").write_text(
        f'#include "grid.h"\n{where}int place(int i) {{ Grid g(8); return g.fit(i); }}\n'
        "__global__ void wrap(const float* x, float* y, int n) {\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        f"  if (i < n) y[i] = x[{'place(i)' if mark else 'i'}];\n}}\n"
        "void run(const float* x, float* y, int n) { wrap<<<n / 256, 256>>>(x, y, n); }\n"
    )


@pytest.mark.parametrize("mark", ["", "__device__"])
def test_members_that_another_file_defines_are_compiled_with_the_source(project, mark):
    write_two_files(project, mark)
    told = init_project("wrap.cu", answers=["reference", "x=[n]"]).warnings
    variant = load_kernel(str(project / "kernels/wrap")).kernel.variants[0]

    assert (told, variant.also) == ((), ("grid.cu",))
    assert ("-rdc=true" in variant.flags) == bool(mark)


def test_members_that_no_file_defines_are_named(project):
    write_two_files(project)
    (project / "grid.cu").unlink()
    told = init_project("wrap.cu").warnings

    assert {"Grid::Grid", "Grid::fit"} < {line.rpartition(" ")[2] for line in told}


def test_an_array_of_pointers_is_refused_with_the_way_on(project):
    (project / "pick.cu").write_text(
        "__global__ void pick(float** parts, float* y, int n) {\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) y[i] = parts[i][0];\n}\n"
        "void run(float** parts, float* y, int n) { pick<<<n / 32, 32>>>(parts, y, n); }\n"
    )
    with pytest.raises(BadValueError, match=r"run takes parts, an array of device pointers"):
        init_project("pick.cu")


LAYER = """\
class Layer {
 public:
  Layer(int n) : n(n) {}
  void forward(float* x);
  static void clear(float* x, int n);
  float* y;
  int n;
};
"""
LAYERS = """\
__global__ void twice(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}
__global__ void zero(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = 0;
}
void Layer::forward(float* x) { twice<<<(n + 255) / 256, 256>>>(x, y, n); }
void Layer::clear(float* x, int n) { zero<<<(n + 255) / 256, 256>>>(x, n); }
"""


@pytest.mark.parametrize("is_in_header", [True, False])
def test_a_member_that_needs_an_object_is_no_launcher(project, is_in_header):
    (project / "layer.h").write_text(LAYER)
    head = '#include "layer.h"\n' if is_in_header else LAYER
    (project / "layer.cu").write_text(head + LAYERS)
    with pytest.raises(BadValueError, match=r"clear \(launcher of zero\)\n.*twice \(kernel\)"):
        init_project("layer.cu")
    init_project("layer.cu", kernel="twice", answers=["reference"])

    assert "<<<(n + 255) / 256, 256" in (project / "kernels/twice/launch.cu").read_text()


COPIED = """\
__global__ void twice(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}
float* make(int n) { float* d; cudaMalloc(&d, 4 * n); return d; }
void put(float* d, const float* h, int n) { cudaMemcpy(d, h, 4 * n, cudaMemcpyHostToDevice); }
void on_device(const float* x, float* y, int n) { twice<<<(n + 255) / 256, 256>>>(x, y, n); }
void whole(const float* x, float* y, int n) {
  float* a = make(n);
  put(a, x, n);
  on_device(a, y, n);
}
void both(const float* x, float* y, int n) { on_device(x, y, n); on_device(y, y, n); }
"""


def test_a_function_that_passes_its_arrays_on_to_a_copy_from_the_host_is_no_launcher():
    summary = summarize_source("copied.cu", COPIED)

    assert [each.name for each in summary.functions] == ["both"]
    assert [each.name for each in summary.inner] == ["on_device"]


def test_a_launcher_that_another_one_calls_is_drafted_by_its_name(project):
    (project / "copied.cu").write_text(COPIED)
    init_project("copied.cu", kernel="on_device", answers=["reference"])

    assert "  on_device(" in (project / "kernels/on_device/launch.cu").read_text()


def test_where_all_arrays_are_said_to_be_inputs_it_is_not_asked_again(project):
    (project / "use.cu").write_text(
        "__global__ void use(const float* x, int n);\n"
        "void hidden(float* x, int n);\n"
        'extern "C" void run(float* x, int n) { hidden(x, n); }\n'
    )
    init_project("use.cu")
    with pytest.raises(BadValueError, match="writes no array"):
        init_project("use.cu", answers=["x.role=input"])


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("y[i] = x[first[blockIdx.x] + threadIdx.x];", {"first"}),
        ("int at = first[blockIdx.x] + i; y[i] = x[at];", {"first"}),
        ("int base = first[blockIdx.x]; y[i] = x[base + i];", {"first"}),
        ("for (int j = first[i]; j < last[i]; j++) y[i] += x[j];", {"first", "last"}),
        ("y[i] = x[first[i]] + last[i] + 1;", set()),
        ("y[i] = x[first[i] * n + i] + last[i];", set()),
    ],
)
def test_where_parts_begin_is_asked_for(project, line, asked):
    (project / "k.cu").write_text(
        "__global__ void k(const float* x, const int* first, const int* last, float* y, int n) {\n"
        f"  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) {{ {line} }}\n}}\n"
    )
    fills = [each for each in init_project("k.cu").to_fill if ".fill=" in each]

    assert {each.partition(".")[0] for each in fills} == asked


def test_the_end_of_offsets_is_not_that_of_an_array_which_other_elements_choose(project):
    (project / "k.cu").write_text(
        "__global__ void k(const int* first, const int* kind, const float* table,\n"
        "                  const float* w, float* y, int n) {\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i >= n) return;\n"
        "  float s = 0;\n  for (int j = first[i]; j < first[i + 1]; j++) {\n"
        "    int at = kind[j];\n    s += table[at] * w[j];\n  }\n  y[i] = s;\n}\n"
    )
    answers = ["first=[n + 1]", "kind=[nnz]", "table=[kinds]", "w=[nnz]", "grid=n / 32", "block=32"]
    init_project("k.cu", answers=[*answers, "reference"])
    kernel = load_kernel(str(project / "kernels/k")).kernel

    assert [each.scale for each in kernel.inputs if each.name == "first"] == ["nnz"]


def write_launch(project, block, height="height"):
    """Write a kernel of two sizes, and the function of a program that launches it."""
    (project / "k.cu").write_text(
        "__global__ void k(const float* x, float* y, int width, int height) {\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "  int j = blockIdx.y * blockDim.y + threadIdx.y;\n"
        "  if (i < width && j < height) y[j * width + i] = x[j * width + i];\n}\n"
        "int main() {\n  int width = 4096, height = 64;\n  float *x = load(), *y = load();\n"
        f"  dim3 block({block});\n  dim3 grid(width / 32, height / 32);\n"
        f"  k<<<grid, block>>>(x, y, width, {height});\n}}\n"
    )


def test_a_block_of_too_many_threads_is_said_and_not_taken(project):
    write_launch(project, "64, 32")
    asked = init_project("k.cu").to_fill
    with pytest.raises(BadValueError, match="a block has at most 1024 threads"):
        init_project("k.cu", answers=["grid=(width / 64, height / 32)", "block=(64, 32)"])

    assert any(each.startswith("block=?") and "2048 threads" in each for each in asked)


def test_a_size_that_is_one_in_the_launch_is_asked_for(project):
    write_launch(project, "32, 32", height="1")
    asked = [each for each in init_project("k.cu").to_fill if each.startswith("height=1")]

    assert asked[0].startswith("height=1  # or axis; ")


def test_a_structure_of_two_numbers_by_another_name_has_their_dtype(project):
    (project / "k.cu").write_text(
        "typedef double real;\nstruct Point { real x; real y; Point(real x, real y); };\n"
        "__global__ void k(const Point* a, Point* b, int n) {\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) b[i] = a[i];\n}\n"
        "void run(const Point* a, Point* b, int n) { k<<<(n + 31) / 32, 32>>>(a, b, n); }\n"
    )
    init_project("k.cu", kernel="k", answers=["reference"])
    kernel = load_kernel(str(project / "kernels/k")).kernel

    assert [(each.shape, each.dtype) for each in kernel.outputs] == [(("n", 2), "float64")]


SCALED_ROWS = """\
import torch, triton
from mylib.rows import rows_kernel, more_kernel


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, gain, shift, eps=1e-5):
        \"\"\"
        x: rows, of shape [rows, cols]
        shift: one number for each column, a vector of shape [cols]
        \"\"\"
        rows, cols = x.shape
        y = torch.empty_like(x)
        ctx.save_for_backward(x, gain)
        rows_kernel[(rows,)](x, y, gain, shift, x.stride(0), cols, eps, BLOCK=128)
        return y


def blend(x: torch.Tensor, rates, y: torch.Tensor):
    rows, cols = x.shape
    more_kernel[(rows,)](x, rates, y, cols)
"""


def test_what_is_saved_or_said_to_have_a_shape_is_an_array(project):
    (project / "k.py").write_text(SCALED_ROWS)

    asked = init_project("k.py", name="k", kernel="Scaled").to_fill
    answers = ["gain=[cols]", "shift=[cols]", "dtype=float32", "reference"]
    after = init_project("k.py", name="k", kernel="Scaled", answers=answers)

    assert [each.partition("  #")[0] for each in asked] == [
        "gain=?",
        "shift=[cols]",
        "dtype=float16",
        "reference=mine",
    ]
    assert after.to_fill == ()
    assert "apply(x, gain, shift)" in (project / "kernels/k/launch.py").read_text()


def test_a_shape_that_is_said_makes_an_array_of_what_looked_like_a_number(project):
    (project / "k.py").write_text(SCALED_ROWS)

    asked = init_project("k.py", name="k", kernel="blend").to_fill
    answers = ["rates=[cols]", "rates.role=input"]
    after = init_project("k.py", name="k", kernel="blend", answers=answers)

    assert any(e.startswith("rates=?  # an array's shape, as [n], or a number;") for e in asked)
    assert not any(each.startswith("rates") for each in after.to_fill)
    assert "{name: rates, shape: [cols]" in (project / "kernels/k/kernel.yaml").read_text()
    assert "blend(x, rates, y)" in (project / "kernels/k/launch.py").read_text()


@pytest.mark.parametrize(("said", "passed"), [("axis", "x.shape[1]"), ("0.5", "0.5")])
def test_a_number_that_is_said_makes_one_of_what_looked_like_an_array(project, said, passed):
    text = SCALED_ROWS.replace("cols = x.shape", "width = x.shape")
    (project / "k.py").write_text(text.replace("gain, shift", "gain, cols"))

    answers = ["x=[rows, cols]", f"cols={said}"]
    init_project("k.py", name="k", kernel="Scaled", answers=answers)

    launcher = (project / "kernels/k/launch.py").read_text()
    assert f", {passed})" in launcher


def test_the_tensors_that_a_helper_gives_its_kernel_are_those_of_its_caller():
    text = (
        "import torch, triton\nimport triton.language as tl\n\n\n@triton.jit\n"
        "def add_kernel(a, b, c, n, B: tl.constexpr):\n"
        "    at = tl.program_id(0) * B + tl.arange(0, B)\n"
        "    total = tl.load(a + at, mask=at < n) + tl.load(b + at, mask=at < n)\n"
        "    tl.store(c + at, total, mask=at < n)\n\n\n"
        "def run(a, b, c):\n    add_kernel[(8,)](a, b, c, a.numel(), B=64)\n\n\n"
        "class Add(torch.autograd.Function):\n    @staticmethod\n"
        "    def forward(ctx, one, other, total):\n        run(one, other, total)\n"
    )
    function = summarize_source("k.py", text).functions[-1]

    assert [(p.name, p.role) for p in function.parameters] == [
        ("one", "input"),
        ("other", "input"),
        ("total", "output"),
    ]


def test_a_shape_of_what_is_passed_by_value_is_refused_with_the_way_on(project):
    (project / "k.cu").write_text(
        "__global__ void k(const float* x, float* y, int count, int n) {\n"
        "  int i = threadIdx.x;\n  if (i < n) y[i] = x[i] + count;\n}\n"
    )

    with pytest.raises(BadValueError, match=r"passed by value \(int\); .* --set count=axis"):
        init_project("k.cu", answers=["count=[n]"])


def test_a_role_that_was_said_is_not_asked_again(project):
    (project / "k.py").write_text(SCALED_ROWS)

    first = init_project("k.py", kernel="blend", answers=["x.role=input"])
    with pytest.raises(BadValueError, match=r"writes no array .* --set y\.role=both"):
        init_project("k.py", kernel="blend", answers=["y.role=input", "rates=0.5"])

    assert [e.partition("=")[0] for e in first.to_fill if ".role" in e] == ["y.role"]


TILES = """\
import torch, triton
import triton.language as tl


@triton.jit
def tile_kernel(x, y, n, d, stride, BLOCK: tl.constexpr, WIDTH: tl.constexpr):
BODY


def tile(x: torch.Tensor):
    n, d = x.shape
    y = torch.empty_like(x)
    WIDTH = LAUNCHED
    tile_kernel[(triton.cdiv(n, 48),)](x, y, n, d, x.stride(0), 48, WIDTH)
    return y
"""
POINTED = """\
    a = tl.make_block_ptr(
        x, shape=(n, d), strides=(stride, 1), offsets=(tl.program_id(0) * BLOCK, 0),
        block_shape=(BLOCK, WIDTH), order=(1, 0))
    b = tl.make_block_ptr(
        y, shape=(n, d), strides=(stride, 1), offsets=(tl.program_id(0) * BLOCK, 0),
        block_shape=(BLOCK, WIDTH), order=(1, 0))
    tl.store(b, tl.load(a, CHECK), CHECK)
"""
OFFSET = """\
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.arange(0, WIDTH)
    at = rows[:, None] * stride + cols[None, :]
    inside = MASK
    tl.store(y + at, tl.load(x + at, mask=inside), mask=inside)
"""
HALVES = """\
    cols = tl.arange(0, WIDTH // 2)
    at = tl.program_id(0) * stride + cols
    tl.store(y + at, tl.load(x + at))
    tl.store(y + at + WIDTH // 2, tl.load(x + at + WIDTH // 2))
"""


@pytest.mark.parametrize(
    ("body", "width", "rows", "cols"),
    [
        (POINTED.replace("CHECK", "boundary_check=(0, 1)"), "64", None, None),
        (POINTED.replace("CHECK", "boundary_check=(0,)"), "64", None, 64),
        (POINTED.replace(", CHECK", ""), "64", 48, 64),
        (OFFSET.replace("MASK", "(rows[:, None] < n) & (cols[None, :] < d)"), "64", None, None),
        (OFFSET.replace("MASK", "rows[:, None] < n"), "triton.next_power_of_2(d)", None, "power"),
        (OFFSET.replace("MASK", "cols[None, :] < d"), "triton.next_power_of_2(d)", 48, None),
        (OFFSET.replace("MASK", "(rows[:, None] < n) & (cols[None, :] < d)"), "d", None, "power"),
        (HALVES, "triton.next_power_of_2(d)", None, "power"),
        (HALVES, "triton.next_power_of_2(x.shape[-1])", None, "power"),
    ],
)
def test_sizes_fit_the_blocks_that_nothing_checks(project, body, width, rows, cols):
    (project / "k.py").write_text(TILES.replace("BODY", body).replace("LAUNCHED", width))

    init_project("k.py", answers=["dtype=float32", "reference"])

    for sizes in load_kernel(str(project / "kernels/k")).kernel.workloads.values():
        assert (sizes["n"] % 48 == 0) or rows is None
        assert (sizes["d"].bit_count() == 1) or cols != "power"
        assert sizes["d"] == 64 or cols != 64
        if rows is cols is None:
            assert sizes["d"].bit_count() > 1


def test_sizes_that_the_source_names_fit_a_shape_with_other_names(project):
    text = TILES.replace("BODY", HALVES).replace("LAUNCHED", "triton.next_power_of_2(d)")
    text = text.replace("n, d = x.shape", "n, d = x.shape[0], x.shape[-1]\n    x = x.view(-1, d)")
    (project / "k.py").write_text(text)

    answers = ["x=[batch, heads, width]", "y=[batch, heads, width]", "dtype=float32", "reference"]
    init_project("k.py", answers=answers)

    for sizes in load_kernel(str(project / "kernels/k")).kernel.workloads.values():
        assert sizes["width"].bit_count() == 1
        assert sizes["batch"].bit_count() > 1


def test_constant_dimensions_count_for_the_size_of_a_workload(project):
    (project / "k.cu").write_text(SCALE_BLOCKS)

    init_project("k.cu", answers=["x=[b, n, 64, 64]", "y=[b, n, 64, 64]", "grid=1", "block=1"])

    text = (project / "kernels/k/kernel.yaml").read_text()
    sizes = dict(re.findall(r"(\w+): (\d+)", re.search(r"large: \{(.*)\}", text)[1]))
    assert int(sizes["b"]) * int(sizes["n"]) * 64 * 64 <= 2**28


SCALE_BLOCKS = """\
__global__ void k(const float* x, float* y, int b, int n) {
  int i = threadIdx.x;
  y[i] = 2 * x[i];
}
"""


@pytest.mark.parametrize("check", ["d == triton.next_power_of_2(d)", "d & (d - 1) == 0"])
def test_a_size_that_is_checked_to_be_a_power_of_two_is_one(project, check):
    body = OFFSET.replace("MASK", "rows[:, None] < n")
    text = TILES.replace("BODY", body).replace(
        "WIDTH = LAUNCHED", f"WIDTH = 64\n    assert {check}"
    )
    (project / "k.py").write_text(text)

    init_project("k.py", answers=["dtype=float32", "reference"])

    for sizes in load_kernel(str(project / "kernels/k")).kernel.workloads.values():
        assert sizes["d"].bit_count() == 1


CHECKED = """\
import torch, triton
import triton.language as tl


@triton.jit
def scale_kernel(q, s, y, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + at, tl.load(q + at, mask=at < n) * tl.load(s), mask=at < n)


def scale(q: torch.Tensor, s: torch.Tensor):
    rows, n = q.shape
    CHECK
    y = MADE
    scale_kernel[(rows,)](q, s, y, q.numel(), B=64)
    return y


if __name__ == "__main__":
    scale(torch.randint(-8, 8, (4, 8), dtype=torch.int8), torch.rand(1, dtype=torch.float64))
"""


@pytest.mark.parametrize(
    ("check", "asked"),
    [
        ("pass", ["dtype=int8  # or float64, float16, bfloat16, float32; of q, s"]),
        ("assert q.dtype == torch.int8", ["dtype=int8  # or float64, float16, bfloat16"]),
        ("assert q.dtype == torch.int8 and q.is_contiguous()", ["dtype=int8  # or float64"]),
        (
            "if q.dtype not in (torch.half, torch.int8):\n        raise TypeError",
            ["dtype=int8", "q.dtype=float16  # or int8;"],
        ),
    ],
)
def test_the_dtypes_that_a_source_names_are_those_that_are_asked(project, check, asked):
    made = 'torch.zeros((rows, n), device="cuda").contiguous()'
    (project / "k.py").write_text(CHECKED.replace("CHECK", check).replace("MADE", made))

    lines = [each for each in init_project("k.py").to_fill if "dtype=" in each]

    assert all(line.startswith(head) for line, head in zip(lines, asked, strict=True))
    assert ("q" in lines[0].partition("of ")[2]) == (check == "pass")
    text = (project / "kernels/k/kernel.yaml").read_text()
    assert "{name: y, shape: [rows, n], dtype: float32}" in text


@pytest.mark.parametrize(
    "made",
    ["torch.full((rows, n), 1)", "torch.empty((rows, n), **kinds)", "q.new_empty((rows, n))"],
)
def test_what_is_made_with_another_dtype_than_the_default_is_asked(project, made):
    (project / "k.py").write_text(CHECKED.replace("CHECK", "pass").replace("MADE", made))

    assert any(each.startswith("y.dtype=") for each in init_project("k.py").to_fill)


def test_an_import_that_is_nowhere_is_named(project):
    package = project / "ops"
    package.mkdir()
    for name in ("__init__.py", "common.py"):
        (package / name).write_text("")
    head = (
        "import math, kb_nowhere.tools\nfrom ops import common\nfrom ops.gone import a_kernel\n"
        "from .common import ROWS\nfrom .other import COLS\n"
        "try:\n    import kb_optional\nexcept ImportError:\n    kb_optional = None\n"
    )
    (package / "k.py").write_text(head + GATED_COPY)

    warnings = init_project(str(package / "k.py")).warnings

    names = [re.search(r"^k.py:(\d+) imports ([\w.]+), which is neither", w) for w in warnings]
    assert [m.groups() for m in names if m] == [
        ("1", "kb_nowhere.tools"),
        ("3", "ops.gone"),
        ("5", "other"),
    ]


GATED_COPY = """
import torch, triton
import triton.language as tl
@triton.jit
def copy_kernel(x, y, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + at, tl.load(x + at, mask=at < n), mask=at < n)
def copy(x: torch.Tensor):
    y = torch.empty_like(x)
    copy_kernel[(8,)](x, y, x.numel(), B=64)
    return y
"""


PARTS = """\
import torch, triton
import triton.language as tl


@triton.jit
def parts_kernel(x, begins, y, d, B: tl.constexpr):
    part = tl.program_id(0)
    first, last = tl.load(begins + part), tl.load(begins + (part + 1))
    at = tl.arange(0, B)
    total = tl.zeros((B,), dtype=tl.float32)
    for row in range(first, last):
        total += tl.load(x + row * d + at, mask=at < d)
    tl.store(y + part * d + at, total, mask=at < d)


def add_parts(x: torch.Tensor, begins: torch.Tensor, y: torch.Tensor):
    n, d = x.shape
    parts_kernel[(begins.numel() - 1,)](x, begins, y, d, B=triton.next_power_of_2(d))


@triton.jit
def groups_kernel(x, w, y, n, d, stride, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + at, tl.load(x + at) * tl.load(w))


def add_groups(x: torch.Tensor, w: torch.Tensor, group: int = 48, kinds: int = 7):
    assert x.size(-1) % group == 0
    y = torch.zeros((kinds, group), dtype=torch.float32)
    groups_kernel[(triton.cdiv(x.numel(), group),)](x, w, y, 1, 2, 3, B=group)
    return y, y.sum(0)
"""


def test_a_tensor_that_a_triton_kernel_reads_at_i_and_after_it_is_asked_how_to_fill(project):
    (project / "k.py").write_text(PARTS)

    asked = init_project("k.py", name="k", kernel="add_parts").to_fill

    assert any(each.startswith("begins.fill=?") and "offsets" in each for each in asked)


def test_sizes_that_keep_their_defaults_are_numbers(project):
    (project / "k.py").write_text(PARTS)

    asked = init_project("k.py", name="k", kernel="add_groups", answers=["x=[m, n]", "w=[1]"])
    lines = [each.partition("  #")[0] for each in asked.to_fill]

    assert "y=[7, 48]" in lines
    assert "out1=[48]" in lines
    text = (project / "kernels/k/kernel.yaml").read_text()
    for sizes in re.findall(r"(?:small|large): \{(.*)\}", text):
        assert int(dict(re.findall(r"(\w+): (\d+)", sizes))["n"]) % 48 == 0


def test_an_array_without_axes_can_be_said(project):
    (project / "k.py").write_text(PARTS)

    answers = ["x=[m, n]", "w=[]", "y=[7, 48]", "out1=[48]", "dtype=float32", "reference"]
    done = init_project("k.py", name="k", kernel="add_groups", answers=answers)

    assert done.to_fill == ()
    kernel = load_kernel(str(project / "kernels/k")).kernel
    assert [each.shape for each in kernel.inputs] == [("m", "n"), ()]


def test_an_array_of_which_each_program_has_a_row_is_like_no_array_of_which_it_has_all(project):
    text = TILES.replace("BODY", ROW_GAINS).replace("(x, y, n", "(x, y, gain, n")
    text = text.replace("(x: torch.Tensor)", "(x: torch.Tensor, gain: torch.Tensor)")
    (project / "k.py").write_text(text.replace("LAUNCHED", "1024"))

    assert not any("gain=[n, d]" in each for each in init_project("k.py").to_fill)


ROW_GAINS = """\
    x += tl.program_id(0) * stride
    y += tl.program_id(0) * stride
    at = tl.arange(0, WIDTH)
    tl.store(y + at, tl.load(x + at, mask=at < d) * tl.load(gain + at, mask=at < d), mask=at < d)
"""


PICKED = """\
import torch, triton
import triton.language as tl


@triton.jit
def pick_kernel(x, chosen, y, stride, B: tl.constexpr):
    at = tl.program_id(0) * stride + tl.arange(0, B)
    row = tl.load(chosen + tl.program_id(0))
    if row == -1:
        return
    begin = x + row * stride
    tl.store(y + at, tl.load(begin + tl.arange(0, B)))


def pick(x: torch.Tensor, chosen: torch.Tensor, y: torch.Tensor):
    pick_kernel[(len(chosen),)](x, chosen, y, x.stride(0), B=64)
"""


def test_what_moves_a_pointer_is_an_index_also_behind_a_variable(project):
    (project / "k.py").write_text(PICKED)

    asked = [each.partition("; ")[0] for each in init_project("k.py").to_fill if "dtype" in each]

    assert asked == [
        "dtype=float16  # or bfloat16, float32, float64",
        "chosen.dtype=int64  # or int32",
    ]


def test_a_size_that_is_said_to_be_cut_into_groups_is_a_multiple_of_one(project):
    (project / "k.py").write_text(PICKED)

    answers = ["x=[m, k]", "y=[m, k // 128]", "chosen=[k // 24]", "dtype=float16"]
    init_project("k.py", answers=[*answers, "chosen.dtype=int32", "reference"])

    for sizes in load_kernel(str(project / "kernels/k")).kernel.workloads.values():
        assert sizes["k"] % 384 == 0


def test_what_is_viewed_as_a_kept_shape_has_the_shape_of_that_tensor(project):
    view = "    return y.view(before)\n"
    text = PARTS.replace("    return y, y.sum(0)\n", view)
    text = text.replace("    assert", "    before = x.shape\n    x = x.view(-1, group)\n    assert")
    (project / "k.py").write_text(text)

    asked = init_project("k.py", name="k", kernel="add_groups").to_fill

    assert any(each.startswith("out=?") for each in asked)


@pytest.mark.parametrize(
    ("code", "host", "is_power"),
    [
        ("int j = i ^ s; if (j > i) { float t = x[i]; x[i] = x[j]; x[j] = t; }", "int n", True),
        ("x[i ^ s] = 1;", "int n", True),
        ("x[i] = i ^ s;", "int n", False),
        ("x[i] = s;", "int p; int n = 1 << p;", True),
        ("x[i] = s;", "int p; int n = pow(2, p);", True),
        ("x[i] = s;", "int p; int n = p * 3;", False),
        ("x[i] = s;", "int n; for (int s = 2; s <= n; s <<= 1)", True),
        ("x[i] = s;", "int n; for (int s = 1; s < n; s = s * 2)", True),
        ("x[i] = s;", "int n; for (int s = 1; s < n; s++)", False),
    ],
)
def test_a_size_that_is_halved_or_shifted_is_a_power_of_two(project, code, host, is_power):
    head, _, loop = host.partition(";")
    (project / "k.cu").write_text(
        "__global__ void k(float* x, int s, int n) {\n"
        f"  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) {{ {code} }}\n}}\n"
        f"void run(float* h, {head}) {{\n  float* x; cudaMalloc(&x, 64); int s = 3;\n"
        f"  {loop}\n  k<<<64, 64>>>(x, s, n);\n}}\n"
    )
    words = ["x=[n]", "x.role=both", "s=3", "grid=64", "block=64", "reference"]
    init_project("k.cu", kernel="k", answers=words)
    sizes = load_kernel(str(project / "kernels/k")).kernel.workloads["small"]

    assert (sizes["n"] & (sizes["n"] - 1) == 0) is is_power


@pytest.mark.parametrize("more", ["", "void all(int* v, int count) { sort(v, count); }\n"])
def test_a_launcher_of_a_bitonic_step_has_sizes_of_powers_of_two(project, more):
    array, kernel = ("v", "all") if more else ("a", "sort")
    (project / "k.cu").write_text(
        "__global__ void step(int* v, int j) {\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x, p = i ^ j;\n"
        "  if (p > i && v[i] > v[p]) { int t = v[i]; v[i] = v[p]; v[p] = t; }\n}\n"
        "void sort(int* a, int count) {\n"
        "  for (int j = 8; j > 0; j >>= 1) step<<<count / 256, 256>>>(a, j);\n}\n" + more
    )
    init_project(
        "k.cu",
        kernel=kernel,
        name="k",
        answers=[f"{array}=[count]", f"{array}.role=both", "reference"],
    )
    sizes = load_kernel(str(project / "kernels/k")).kernel.workloads["large"]

    assert sizes["count"] & (sizes["count"] - 1) == 0


@pytest.mark.parametrize(
    ("host", "value"),
    [
        ("bool odd = true;", "true"),
        ("bool odd; odd = true;", "true"),
        ("bool odd; if (n % 2) odd = true;", "FILL_IN"),
        ("bool odd = false; if (n % 2) odd = true;", "FILL_IN"),
        ("if (n % 2) odd = true;", "FILL_IN"),
    ],
)
def test_a_number_that_only_a_branch_sets_is_asked(project, host, value):
    (project / "k.cu").write_text(
        "static bool odd;\n"
        "__global__ void k(const float* x, float* y, int n, bool odd) {\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) y[i] = odd ? x[i] : 0;\n}\n"
        f"void run(int n) {{\n  float *x, *y;\n  {host}\n"
        "  k<<<(n + 63) / 64, 64>>>(x, y, n, odd);\n}\n"
    )
    init_project("k.cu", kernel="k")

    assert f"const bool odd = {value};" in (project / "kernels/k/launch.cu").read_text()


def test_what_a_kernel_that_includes_a_part_of_its_body_reads_is_asked(project):
    (project / "rest.inc").write_text("y[i] += bias;\n")
    (project / "k.cu").write_text(
        "__global__ void k(const float* x, float* y, int n, float bias) {\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i >= n) return;\n  y[i] = x[i];\n"
        '#include "rest.inc"\n}\n'
    )

    assert any(each.startswith("bias=?") for each in init_project("k.cu").to_fill)


@pytest.mark.parametrize(
    ("code", "is_whole"),
    [
        ("if (i >= n) return; y[i] = 1;", True),
        ("if (i >= n) return; i += first; y[i] = 1;", False),
        ("if (i >= n) return; i = i + first; y[i] = 1;", False),
        ("while (i < n) { y[i] = 1; i += 64; }", True),
    ],
)
def test_an_index_that_is_moved_behind_its_bound_shows_no_shape(project, code, is_whole):
    (project / "k.cu").write_text(
        "__global__ void k(float* y, int n, int first) {\n"
        f"  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  {code}\n}}\n"
    )
    asked = [each.partition("=")[0] for each in init_project("k.cu", answers=["first=0"]).to_fill]

    assert ("y" not in asked) is is_whole


@pytest.mark.parametrize(
    ("given", "limit", "asked"),
    [
        ("ROWS * COLS", "ROWS", ["n=ROWS * COLS"]),
        ("ROWS * COLS", "n / COLS", ["n=ROWS * COLS"]),
        ("ROWS", "n", []),
        ("4096", "n", []),
        ("count", "ROWS", ["n=axis"]),
    ],
)
def test_a_size_of_constants_that_the_kernel_reads_is_asked(project, given, limit, asked):
    (project / "k.cu").write_text(
        "#define ROWS 60\n#define COLS 12\n__global__ void k(float* y, int n) {\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        f"  if (i < {limit}) y[i] = 1;\n}}\n"
        f"void run(int count) {{\n  float* y;\n  const int all = {given};\n"
        "  k<<<(all + 63) / 64, 64>>>(y, all);\n}\n"
    )
    told = [each.partition("  #")[0] for each in init_project("k.cu", kernel="k").to_fill]

    assert [each for each in told if each.startswith("n=")] == asked


@pytest.mark.parametrize(
    ("flags", "asked", "kept"),
    [
        ('["-O3", "--use_fast_math", "-DTAP_COUNT=5"]', [], ["-DTAP_COUNT=5", "--use_fast_math"]),
        ('["-O3 -use_fast_math -DTAP_COUNT=5"]', [], ["-DTAP_COUNT=5", "--use_fast_math"]),
        ('["-DTAP_COUNT=" + str(taps)]', ["TAP_COUNT"], ["-DTAP_COUNT=9"]),
        ('[f"-DTAP_COUNT={taps}", "-DOTHER_ONE=3"]', ["TAP_COUNT"], ["-DTAP_COUNT=9"]),
        ('["-DTAP_COUNT=%d" % taps]', ["TAP_COUNT"], ["-DTAP_COUNT=9"]),
        ("[]", ["TAP_COUNT"], ["-DTAP_COUNT=9"]),
    ],
)
def test_macros_that_a_loader_puts_together_are_asked_and_its_flags_are_kept(
    project, flags, asked, kept
):
    (project / "load.py").write_text(
        f'def get(taps):\n    return load("k", sources=["k.cu"], extra_cuda_cflags={flags})\n'
    )
    (project / "k.cu").write_text(
        "constexpr int T = TAP_COUNT;\n"
        "__global__ void k(const float* x, float* y, int n) {\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) y[i] = x[i] * T;\n}\n"
    )
    questions = [each.partition("=")[0] for each in init_project("k.cu").to_fill]
    said = ["grid=8", "block=64", "reference", *(f"{name}=9" for name in asked)]
    init_project("k.cu", answers=said)
    drafted = load_kernel(str(project / "kernels/k")).kernel.variants[0]

    assert [q for q in questions if q.isupper()] == asked
    assert sorted(drafted.flags) == sorted(kept)


@pytest.mark.parametrize("value", ["scale##TAIL", "scale"])
@pytest.mark.parametrize("kernel", ["scale_now", "run"])
def test_a_name_that_a_macro_puts_together_is_told(project, value, kernel):
    arguments = "const float* x, float* y, int n"
    (project / "k.cu").write_text(
        f"#define TAIL _v2\n#define scale_now {value}\n"
        f"__global__ void scale_now({arguments}) {{\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) y[i] = 2 * x[i];\n}\n"
        f"void run({arguments}) {{ scale_now<<<(n + 63) / 64, 64>>>(x, y, n); }}\n"
    )
    told = [each for each in init_project("k.cu", kernel=kernel).warnings if "##" in each]

    assert len(told) == ("##" in value)


@pytest.mark.parametrize(
    ("test", "step"),
    [
        ("if (n % 48 != 0) return;", 48),
        ("if ((n % PART) != 0) { return; }", 40),
        ("if (n % two != 0) return;", 1),
    ],
)
def test_a_size_that_is_left_out_unless_it_is_a_multiple_is_one(project, test, step):
    (project / "k.cu").write_text(
        "constexpr int PART = 8 * 5;\n__global__ void k(const float* x, float* y, int n) {\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) y[i] = x[i];\n}\n"
        f"void run(const float* x, float* y, int n) {{\n  int two = 2;\n  {test}\n"
        "  k<<<(n + 63) / 64, 64>>>(x, y, n);\n}\n"
    )
    init_project("k.cu", answers=["reference"])
    kernel = load_kernel(str(project / "kernels/k")).kernel

    assert all(sizes["n"] % step == 0 for sizes in kernel.workloads.values())


@pytest.mark.parametrize(
    ("shared", "is_told"),
    [("n * 4", True), ("bytes", True), ("4096", False), ("64 * sizeof(float)", False)],
)
def test_shared_memory_that_grows_with_a_size_is_told(project, shared, is_told):
    (project / "k.cu").write_text(
        "__global__ void k(const float* x, float* y, int n) {\n  extern __shared__ float s[];\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) y[i] = x[i];\n}\n"
        "int main() {\n  float *x, *y; int n = 5;\n  size_t bytes = n * sizeof(float);\n"
        f"  k<<<(n + 63) / 64, 64, {shared}>>>(x, y, n);\n}}\n"
    )
    told = [each for each in init_project("k.cu", kernel="k").warnings if "48 KiB" in each]

    assert bool(told) is is_told


@pytest.mark.parametrize(
    ("kind", "dtype"), [("cuDoubleComplex", "float64"), ("cufftComplex", "float32")]
)
def test_complex_numbers_of_the_toolkit_are_two_numbers(project, kind, dtype):
    (project / "k.cu").write_text(
        f"__global__ void k(const {kind}* x, float* y, int n) {{\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) y[i] = x[i].x;\n}\n"
    )
    init_project("k.cu", answers=["grid=8", "block=64", "reference"])
    first = load_kernel(str(project / "kernels/k")).kernel.inputs[0]

    assert (first.shape, first.dtype) == (("n", 2), dtype)


PLAIN = """\
__global__ void k(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}
void run(const float* x, float* y, int n) { k<<<(n + 63) / 64, 64>>>(x, y, n); }
"""


@pytest.mark.parametrize(
    ("lines", "missing"),
    [
        ('#include "cuda_things.h"\n', "cuda_things.h"),
        ('#include "cublas_wrap.h"\n#include "nccl_pool.cuh"\n', "cublas_wrap.h nccl_pool.cuh"),
        ("#include <cuda_fp16.h>\n#include <cublas_v2.h>\n#include <curand_kernel.h>\n", ""),
        ('#ifdef WITH_OWN\n#include "own.h"\n#endif\n', ""),
        ("#if defined(__APPLE__) || defined(_WIN32)\n#include <far/off.h>\n#endif\n", ""),
        ('#ifdef WITH_OWN\n#else\n#include "other.h"\n#endif\n', "other.h"),
        ('#define WITH_OWN\n#ifdef WITH_OWN\n#include "own.h"\n#endif\n', "own.h"),
        ('#if 0\n#include "own.h"\n#endif\n', ""),
        ('#if defined(_WIN32) && LEVEL && !defined(OFF)\n#include "own.h"\n#endif\n', ""),
        ('#if LEVEL > 2\n#include "own.h"\n#endif\n', "own.h"),
        ('#ifndef OWN\n#include "own.h"\n#endif\n', "own.h"),
        ('#ifdef WITH_OWN\n#include "wide.h"\n#endif\n', ""),
    ],
)
def test_a_missing_header_is_told_where_it_is_compiled_and_whatever_its_name(
    project, lines, missing
):
    (project / "wide.h").write_text('#include "inner.h"\n')
    (project / "k.cu").write_text(lines + PLAIN)
    told = [w.split()[1] for w in init_project("k.cu").warnings if w.startswith("header")]

    assert " ".join(told) == missing


@pytest.mark.parametrize(
    ("links", "told"),
    [
        ("target_link_libraries(show PRIVATE X11 GL)", "-lX11 -lGL"),
        ("target_link_libraries(show glut parts CUDA::cublas ${MORE} cudart)", "-lglut"),
        ("target_link_libraries(other gtest)", ""),
    ],
)
def test_the_libraries_that_a_build_links_are_told(project, links, told):
    (project / "CMakeLists.txt").write_text(
        "add_library(parts STATIC parts.cpp)\nadd_executable(show k.cu)\n"
        f"add_executable(other test.cpp)\n{links}\n"
    )
    (project / "k.cu").write_text(PLAIN)
    found = [w for w in init_project("k.cu").warnings if "links" in w]

    assert [w.partition("links ")[2].partition(":")[0] for w in found] == [told] * bool(told)


@pytest.mark.parametrize(
    ("launch", "is_asked"),
    [
        ("scale_all<<<height(), 256>>>(data, s, width());", True),
        ("int b = 512 > cols() ? cols() : 512; scale_all<<<4, b>>>(data, s, width());", True),
        ("scale_all<<<(width_of + 255) / 256, 256>>>(data, s, width_of);", False),
        ("int c = 7; scale_all<<<divide_up(c, 2), 256>>>(data, s, c);", False),
        ("int c = 7; scale_all<<<std::max(c, 1), min(c, 256)>>>(data, s, c);", False),
    ],
)
def test_a_launch_that_calls_methods_of_its_class_is_asked(project, launch, is_asked):
    (project / "k.cu").write_text(
        "struct Mat {\n  float* data; int width_of;\n  int height() { return 4; }\n"
        "  int width() { return width_of; }\n  int cols();\n  void scale(float s);\n};\n"
        "static int divide_up(int a, int b) { return (a + b - 1) / b; }\n"
        "__global__ void scale_all(float* x, float s, int cols) {\n"
        "  for (int j = threadIdx.x; j < cols; j += blockDim.x)\n"
        "    x[blockIdx.x * cols + j] *= s;\n}\n"
        f"void Mat::scale(float s) {{ {launch} }}\n"
    )
    asked = init_project("k.cu", kernel="scale_all").to_fill
    text = (project / "kernels/k/launch.cu").read_text()

    assert any(line.startswith(("grid=", "b=")) for line in asked) is is_asked
    assert not re.search(r"\b(?:height|cols|width)\(\)", re.sub("//.*", "", text))


@pytest.mark.parametrize(
    ("store", "is_asked"),
    [
        ("if (0 < row && row < h - 1 && 0 < col && col < w - 1) out[at] = in[at - w];", True),
        ("if (row == 0 || row == h - 1) return; out[at] = in[at + w];", True),
        ("if (row < h && col < w) out[at] = in[at];", False),
    ],
)
def test_an_output_of_which_the_inner_cells_are_stored_is_asked(project, store, is_asked):
    (project / "k.cu").write_text(
        "__global__ void heat(int w, int h, const float* in, float* out) {\n"
        "  int at = blockIdx.x * blockDim.x + threadIdx.x;\n"
        f"  int col = at % w, row = at / w;\n  {store}\n}}\n"
        "void step(int w, int h, const float* in, float* out) {\n"
        "  heat<<<(w * h + 255) / 256, 256>>>(w, h, in, out);\n}\n"
    )
    asked = init_project("k.cu").to_fill

    assert any(line.startswith("out.role=both") for line in asked) is is_asked


@pytest.mark.parametrize(
    ("index", "is_offset"),
    [
        ("(first + x) * wide + x", True),
        ("first + blockIdx.x * wide + x", True),
        ("blockIdx.x * first + x + wide", False),
    ],
)
@pytest.mark.parametrize("has_launcher", [False, True])
def test_a_number_that_only_offsets_an_index_is_asked_and_no_size(
    project, index, is_offset, has_launcher
):
    launcher = "void run(float* m, int wide, int first) { add<<<1, 64>>>(m, wide, first); }\n"
    (project / "k.cu").write_text(
        "__global__ void add(float* m, const int wide, const int first) {\n"
        f"  int x = threadIdx.x;\n  m[{index}] += 1;\n}}\n" + launcher * has_launcher
    )
    asked = init_project("k.cu").to_fill
    said = init_project("k.cu", answers=["m=[wide, wide]"]).to_fill

    assert any(line.startswith("first=?") for line in asked) is is_offset
    assert not any(line.startswith("m=[first") for line in asked if is_offset)
    assert any(line.startswith("first=?") for line in said) is is_offset


def test_row_starts_are_known_through_the_wrapper_of_an_extension(project):
    (project / "rows.cu").write_text(
        "__global__ void mul(int rows, int wide, const int starts[], const int at[],\n"
        "                    const float v[], const float b[], float c[]) {\n"
        "  int row = blockIdx.x, j = threadIdx.x;\n  float sum = 0;\n"
        "  for (int p = starts[row]; p < starts[row + 1]; p++)\n"
        "    sum += v[p] * b[at[p] * wide + j];\n  c[row * wide + j] = sum;\n}\n"
        "void mul_cuda(int rows, const int* starts, const int* at, const float* v,\n"
        "              const float* b, int wide, float* c) {\n"
        "  mul<<<rows, wide>>>(rows, wide, starts, at, v, b, c);\n}\n"
    )
    (project / "wrap.cpp").write_text(
        "#include <torch/extension.h>\n"
        "void mul_cuda(int rows, const int* starts, const int* at, const float* v,\n"
        "              const float* b, int wide, float* c);\n"
        "void multiply(int rows, torch::Tensor starts, torch::Tensor at, torch::Tensor v,\n"
        "              torch::Tensor b, int wide, torch::Tensor c) {\n"
        "  mul_cuda(rows, starts.data_ptr<int>(), at.data_ptr<int>(), v.data_ptr<float>(),\n"
        "           b.data_ptr<float>(), wide, c.data_ptr<float>());\n}\n"
        'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("multiply", &multiply); }\n'
    )
    shapes = ["starts=[rows + 1]", "at=[nnz]", "v=[nnz]", "b=[cols, wide]", "c=[rows, wide]"]
    init_project("wrap.cpp", answers=[*shapes, "rows=c.size(0)", "wide=c.size(1)", "reference"])
    first = load_kernel(str(project / "kernels/wrap")).kernel.inputs[0]

    assert (first.fill, first.scale) == ("offsets", "nnz")


@pytest.mark.parametrize(
    ("lines", "asked"),
    [
        ("int at = first[d] + t - held[d]; out[at] = in[i];", "first table"),
        ("int at = first[d] + t - sum_up(held, d); out[at] = in[i];", "first table"),
        ("out[first[d] + table[d] + t] = in[i];", "first table"),
        ("out[i] = in[first[d]] + table[d];", ""),
        ("int row = first[d]; out[i] = in[row * 4 + t] * table[d];", ""),
    ],
)
def test_integers_that_are_added_to_an_index_are_asked(project, lines, asked):
    (project / "k.cu").write_text(
        "__global__ void move(const unsigned* in, unsigned* out, const unsigned* first,\n"
        "                     const unsigned* table, unsigned n) {\n"
        "  unsigned i = blockIdx.x * blockDim.x + threadIdx.x, t = threadIdx.x;\n"
        "  __shared__ unsigned held[16];\n"
        "  if (t < 16) held[t] = table[blockIdx.x * 16 + t];\n  __syncthreads();\n"
        f"  unsigned d = in[i] & 15;\n  if (i < n) {{ {lines} }}\n}}\n"
    )
    found = [line.partition(".")[0] for line in init_project("k.cu").to_fill if ".fill=" in line]

    assert " ".join(found) == asked


@pytest.mark.parametrize("place", ["k.cu", "sizes.h"])
@pytest.mark.parametrize(
    ("declared", "kind", "is_taken"),
    [
        ("typedef struct { unsigned count; unsigned wide; } Sizes;", "Sizes", True),
        ("struct Sizes { int count, wide; float scale; };", "const struct Sizes", True),
        ("struct Sizes { int count; std::vector<int> wide; };", "Sizes", False),
    ],
)
def test_a_launcher_takes_a_structure_of_numbers_by_value(project, place, declared, kind, is_taken):
    (project / "sizes.h").write_text("#include <vector>\n")
    (project / "k.cu").write_text(
        '#include "sizes.h"\ntemplate <typename T>\n'
        f"__global__ void add(T* m, const {kind.removeprefix('const ')} s) {{\n"
        "  m[threadIdx.x * s.wide] += 1;\n}\n"
        f"void run(float* m, {kind} s) {{ add<<<1, 64>>>(m, s); }}\n"
    )
    before = (project / place).read_text()
    include, _, rest = before.partition("\n")
    (project / place).write_text(f"{include}\n{declared}\n{rest}")
    if not is_taken:
        with pytest.raises(BadValueError, match="no kernel 'run'"):
            init_project("k.cu", kernel="run")
        return
    words = ["m=[640]", "s=Sizes{64, 10}", "reference"]
    made = init_project("k.cu", kernel="run", answers=words)
    folder = project / f"kernels/{made.kernel}"

    assert made.to_fill == ()
    assert "run(m, s);" in (folder / "launch.cu").read_text()
    assert load_kernel(str(folder)).kernel


def test_integers_of_a_tensor_whose_kernel_is_not_seen_are_asked(project):
    (project / "wrap.cpp").write_text(
        "#include <torch/extension.h>\n"
        "struct View { int* at; float* v; };\nvoid go(View view, float* c);\n"
        "void pick(torch::Tensor at, torch::Tensor v, torch::Tensor c) {\n"
        "  View view{at.data_ptr<int>(), v.data_ptr<float>()};\n"
        "  go(view, c.data_ptr<float>());\n}\n"
        'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("pick", &pick); }\n'
    )
    asked = init_project("wrap.cpp").to_fill
    said = init_project("wrap.cpp", answers=["at.role=input", "at.fill=offsets n"]).to_fill

    assert [line.partition(";")[0] for line in asked if ".fill" in line] == [
        "at.fill=integers 32  # or zeros"
    ]
    assert not any(".fill" in line for line in said)
