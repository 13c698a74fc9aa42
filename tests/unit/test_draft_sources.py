"""What kb init drafts where a kernel is chosen before its launch, or stands in a header."""

import re

import pytest

from kernelkb.actions.init.init_project import init_project
from kernelkb.actions.init.init_source import summarize_source
from kernelkb.errors import BadValueError
from kernelkb.scaffold.answers import read_said
from kernelkb.scaffold.c_source import summarize_included

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
    assert "fill: normal}  # shape observed\n" in text
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
            "    if not how:\n        if x is None or z is None:\n            raise ValueError\n",
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
