"""What kb init drafts from wrappers of kernels: casts, checks, modules, what they return."""

import pytest

from kernelkb.actions.init.init_project import init_project
from kernelkb.errors import BadValueError

HEAD = "import torch\nimport triton\nimport triton.language as tl\n\n\n"
DOUBLE = """\
@triton.jit
def _double(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)


"""
OPEN = """\
def _impl(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, 2 * tl.load(x + i))


"""
RUN = """\
def run(x: torch.Tensor):
    y = torch.empty_like(x)
    _double[lambda m: (triton.cdiv(x.numel(), m["B"]),)](x, y, x.numel())
    return y
"""


def write_launcher(project, text, **options):
    (project / "k.py").write_text(HEAD + text)
    made = init_project("k.py", name="k", **options)
    return made, (project / "kernels/k/launch.py").read_text()


def read_yaml(project):
    return (project / "kernels/k/kernel.yaml").read_text()


@pytest.mark.parametrize(
    ("head", "wrapped"),
    [
        ("@triton.jit\n", "triton.autotune(configs=make(), key=['n'])(_impl)"),
        ("", "triton.autotune(configs=make(), key=['n'])(triton.jit(_impl))"),
        ("", "triton.jit(_impl)"),
    ],
)
def test_blocks_of_a_kernel_that_is_tuned_by_a_call_are_not_known_silently(project, head, wrapped):
    text = f"from far import make\n\n\n{head}{OPEN}_double = {wrapped}\n\n\n{RUN}"
    made, _ = write_launcher(project, text)

    assert "_impl: configurations of B were not read" in str(made.warnings)
    assert "kernels: [_impl]" in read_yaml(project)


@pytest.mark.parametrize(
    ("line", "launched", "name"),
    [
        ("import far.kernels as kk", "kk.double", "double"),
        ("from far import kernels", "kernels.double_kernel", "double_kernel"),
        ("from far import kernels", "torch.library.wrap_triton(kernels.double)", "double"),
        ("import far.kernels", "far.kernels.double", "double"),
    ],
)
def test_a_kernel_of_a_module_is_launched(project, line, launched, name):
    text = (
        f"{line}\n\n\ndef run(x):\n    y = torch.empty_like(x)\n"
        f"    {launched}[(1,)](x, y, x.numel(), B=64)\n    return y\n"
    )
    made, _ = write_launcher(project, text)

    assert f"kernels: [{name}]" in read_yaml(project)
    assert f".{name} of another file" in str(made.warnings)


@pytest.mark.parametrize(
    "lines",
    [
        "try:\n    import triton.ops\nexcept ImportError:\n    pass",
        "from .triton.ops import matmul",
        "from mine.triton.ops import matmul",
        "def old(x):\n    import triton.ops\n    return triton.ops.matmul(x, x)",
    ],
)
def test_what_a_launcher_does_not_need_of_old_triton_is_no_warning(project, lines):
    text = f"{lines}\n\n\n{DOUBLE}def run(x, y):\n    _double[(1,)](x, y, 8, B=64)\n"

    assert "is gone" not in str(write_launcher(project, text)[0].warnings)


@pytest.mark.parametrize(
    ("checks", "is_known"),
    [
        ("for t in (a, b):\n        assert t.shape == x.shape", True),
        ("assert all(t.shape == x.shape for t in (a, b))", True),
        ("assert x.shape == a.shape == b.shape", True),
        ("if a.shape != x.shape or b.shape != x.shape:\n        raise ValueError", True),
        ("assert a.shape == x.shape or b.shape == x.shape", False),
        ("for t in tensors:\n        assert t.shape == x.shape", False),
    ],
)
def test_checks_of_several_arrays_count_for_each(project, checks, is_known):
    text = (
        f"{DOUBLE}def run(x, a, b):\n    n, m = x.shape\n    {checks}\n"
        "    y = torch.empty_like(x)\n    _double[(1,)](a, y, n, B=64)\n"
        "    _double[(1,)](b, y, n, B=64)\n    return y\n"
    )
    write_launcher(project, text)

    assert ("{name: b, shape: [n, m]" in read_yaml(project)) == is_known


@pytest.mark.parametrize(
    ("before", "returned", "dtype", "asked"),
    [
        ("x = x.float()\n    y = torch.empty_like(x)", "y", "float32", "dtype"),
        ("h = x.contiguous().half()\n    y = torch.empty_like(h)", "y", "float16", "dtype"),
        ("x = x.to(torch.bfloat16)\n    y = x.new_empty((n, m))", "y", "bfloat16", "dtype"),
        ("y = torch.empty_like(x)\n    x = x.float()", "y", "FILL_IN", "dtype"),
        ("y = torch.empty_like(x)", "y.to(torch.float32)", "float32", "dtype"),
        ("x = x.to(how)\n    y = torch.empty_like(x)", "y", "FILL_IN", "y.dtype"),
        (
            "if n > 8:\n        x = x.float()\n    y = torch.empty_like(x)",
            "y",
            "FILL_IN",
            "y.dtype",
        ),
        ("x = x.to('cuda')\n    y = torch.empty_like(x)", "y", "FILL_IN", "dtype"),
        ("assert x.dtype == torch.float16\n    y = torch.empty_like(x)", "y", "float16", ""),
    ],
)
def test_the_dtype_of_a_result_is_that_after_the_casts(project, before, returned, dtype, asked):
    text = (
        f"{DOUBLE}def run(x, how=None):\n    n, m = x.shape\n    {before}\n"
        f"    _double[(1,)](x, y, x.numel(), B=64)\n    return {returned}\n"
    )
    made, _ = write_launcher(project, text)
    outputs = read_yaml(project).partition("outputs:")[2].partition("reference")[0]
    keys = [each.partition("=")[0] for each in made.to_fill if "dtype" in each]

    assert f"shape: [n, m], dtype: {dtype}" in outputs
    assert asked in keys or not asked


@pytest.mark.parametrize(
    ("returned", "picked"),
    [
        ("y, (mean, rstd)", "results[0], results[1][0], results[1][1]"),
        ("{'y': y, 'mean': mean}", "results['y'], results['mean']"),
        ("{'y': y, 'rest': (mean, rstd)}", "results['y'], results['rest'][0], results['rest'][1]"),
    ],
)
def test_results_inside_of_results_are_arrays_of_their_own(project, returned, picked):
    text = (
        f"{DOUBLE}def run(x):\n    n, m = x.shape\n    y = torch.empty_like(x)\n"
        "    mean = torch.empty((n,), dtype=torch.float32)\n    rstd = torch.empty_like(mean)\n"
        f"    _double[(1,)](x, y, x.numel(), B=64)\n    return {returned}\n"
    )
    _, code = write_launcher(project, text)

    assert f"    return {picked}\n" in code
    assert "{name: mean, shape: [n], dtype: float32}" in read_yaml(project)


def test_defaults_that_a_call_leaves_out_are_told(project):
    text = (
        f"{DOUBLE}def run(x, size=(3, 3), dim=-1):\n    n, m = x.shape\n    if dim != -1:\n"
        "        x = x.t()\n    y = torch.empty_like(x)\n"
        "    _double[(1,)](x, y, x.numel(), B=64)\n    return y\n"
    )
    write_launcher(project, text)

    assert "# Assumed: left at their defaults: size=(3, 3), dim=-1.\n" in read_yaml(project)
    assert "{name: x, shape: [n, m]" in read_yaml(project)


def test_a_list_of_numbers_that_a_caller_passes_is_known(project):
    text = (
        f"{DOUBLE}def run(x, size, low):\n    h, w = size\n    y = torch.empty_like(x)\n"
        "    _double[(1,)](x, y, h * w + low, B=64)\n    return y\n\n\n"
        "def outer(x, low=-1):\n    return run(x, size=(8, 8), low=low)\n"
    )
    made, code = write_launcher(project, text, kernel="run")

    assert "run(x, (8, 8), -1)" in code
    assert not any(each.startswith(("size", "low")) for each in made.to_fill)


def test_a_check_that_wants_a_transposed_array_is_warned_of(project):
    text = (
        f"{DOUBLE}def run(x, y):\n    n, m = x.shape\n    assert x.stride(CHECK) == 1\n"
        "    _double[(1,)](x, y, x.numel(), B=64)\n"
    )
    told = [
        str(write_launcher(project, text.replace("CHECK", at))[0].warnings) for at in ("0", "1")
    ]

    assert ["transposed view of x" in each for each in told] == [True, False]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("k = cp.RawKernel(code % {'T': 'float'}, 'k')", r"as it runs \(line 1\).*kb init NAME"),
        ("k = cp.RawModule(code=Path('csrc/k.cu').read_text())", "kb init csrc/k.cu"),
        ("k = cp.ElementwiseKernel('T x', 'T y', 'y = x', 'k')", "CuPy write the kernel"),
        ("@cuda.jit\ndef k(x):\n    pass", "kernel of Numba"),
    ],
)
def test_python_without_a_text_of_cuda_is_refused_with_the_way_on(project, text, says):
    (project / "k.py").write_text(text)
    with pytest.raises(BadValueError, match=says):
        init_project("k.py", name="k")


def test_a_text_of_cuda_that_the_file_completes_is_told_first(project):
    (project / "k.py").write_text(
        'import cupy\n\ncode = """\nextern "C" __global__ void k(const float* x, float* y) {\n'
        '    y[threadIdx.x] = VALUE_1(x, threadIdx.x);\n}\n"""\n'
    )

    assert "source.cu lacks VALUE_1" in init_project("k.py", name="k").warnings[0]


def test_results_that_are_summed_by_a_method_are_outputs_and_others_are_told(project):
    text = (
        f"{DOUBLE}def run(x):\n    n, m = x.shape\n    size = 64\n    y = torch.empty_like(x)\n"
        "    parts = torch.empty((n, m), dtype=torch.float32)\n"
        "    _double[(1,)](x, y, x.numel(), B=size)\n    DW = parts.sum(dim=0).to(x.dtype)\n"
        "    return y, DW, y, size\n"
    )
    made, code = write_launcher(project, text)

    assert "    return results[0], results[1]\n" in code
    assert "line 19 returns size, too: taken as no arrays" in str(made.warnings)
