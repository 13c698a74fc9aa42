"""What kb init drafts where a kernel is chosen before its launch, or stands in a header."""

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
