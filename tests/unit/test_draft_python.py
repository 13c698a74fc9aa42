"""What kb init drafts from Python: descriptors, packages, objects, and what they return."""

import importlib.util
import re
import sys
import time

import pytest

from kernelkb.actions.init.init_project import init_project
from kernelkb.actions.init.init_source import summarize_source
from kernelkb.errors import BadValueError
from kernelkb.loading.kernels import load_kernel

HEAD = "import torch\nimport triton\nimport triton.language as tl\n\n\n"
DOUBLE = """\
@triton.jit
def _double(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)


"""
MAKE = "tl.make_tensor_descriptor({0}, shape=[m, n], strides=[n, 1], block_shape=[B, B])"
BLOCK = "tl.make_block_ptr({0}, (m, n), (n, 1), (0, 0), (B, B), (1, 0))"


def read_arrays(text):
    function = summarize_source("k.py", HEAD + text).functions[0]
    return {p.name: (p.role, p.is_certain) for p in function.parameters if p.type != "number"}


@pytest.mark.parametrize(
    ("lines", "launch"),
    [
        (
            f"a = {MAKE.format('x')}\n    b = {MAKE.format('base=y')}\n"
            "    b.store([i, i], a.load([i, i]))",
            "",
        ),
        (
            f"a = {MAKE.format('x')}\n    b = {MAKE.format('y')}\n"
            "    b.atomic_add([i, i], a.gather(i, i))",
            "",
        ),
        (
            f"a = {MAKE.format('x').replace('make', '_experimental_make')}\n    v = "
            f"tl.load_tensor_descriptor(a, [i, i])\n    b = {MAKE.format('y')}\n"
            "    tl._experimental_descriptor_store(b, v, [i, i])",
            "",
        ),
        (
            f"a = {BLOCK.format('x')}\n    b = {BLOCK.format('y')}\n    tl.store(b, tl.load(a))",
            "",
        ),
        ("y.store([i, i], x.load([i, i]))", "TensorDescriptor.from_tensor({0}, [B, B])"),
        ("y.store([i, i], x.load([i, i]))", "TensorDescriptor({0}, [m, n], [n, 1], [B, B])"),
        ("_put(y, i, _get(x, i))", ""),
        ("_put(y, i, _get(x, i))", "{0}.view(-1)"),
    ],
)
def test_roles_follow_from_descriptors_block_pointers_and_helpers(lines, launch):
    helpers = (
        "@triton.jit\ndef _at(p, i):\n    return tl.load(p + i)\n\n\n"
        "@triton.jit\ndef _get(p, i):\n    return _at(p, i)\n\n\n"
        "@triton.jit\ndef _put(p, i, v):\n    q = p + i\n    tl.store(q, v)\n\n\n"
    )
    kernel = f"@triton.jit\ndef k(x, y, m, n, B: tl.constexpr):\n    i = 0\n    {lines}\n\n\n"
    wrapped = [launch.format(name) if launch else name for name in ("src", "dst")]
    made = f"    a = {wrapped[0]}\n    b = {wrapped[1]}\n" if launch else ""
    passed = "a, b" if launch else "src, dst"
    text = (
        f"{helpers}{kernel}def scale(src: torch.Tensor, dst: torch.Tensor, m, n):\n{made}"
        f"    k[(1,)]({passed}, m, n, 64)\n    return dst\n"
        "\n\ndef main():\n    out = torch.empty(8)\n"
    )

    assert read_arrays(text) == {"src": ("input", True), "dst": ("output", True)}


def test_a_use_that_is_not_understood_is_asked():
    text = (
        "@triton.jit\ndef k(x, y, n):\n    engine.move(y, x, n)\n\n\n"
        "def scale(src: torch.Tensor, dst: torch.Tensor):\n    k[(1,)](src, dst, 8)\n"
        "    return dst\n"
    )

    assert read_arrays(text)["dst"] == ("input", False)


def write_launcher(project, text, answers=(), file="k.py", **options):
    (project / file).write_text(HEAD + text)
    made = init_project(file, name="k", answers=[*answers], **options)
    return made, (project / "kernels/k/launch.py").read_text()


PASSED = (
    "@triton.jit\ndef k(x, y, z, n):\n    engine.move(y, x, n)\n    tl.store(z, n)\n\n\n"
    "def scale(src: torch.Tensor, dst: torch.Tensor):\n    n = src.shape[0]\n"
    "    sums = torch.empty_like(src)\n    k[(1,)](src, dst, sums, n)\n    return LAST\n"
)


def test_an_argument_that_is_returned_is_an_output_where_that_is_said(project):
    made, _ = write_launcher(project, PASSED.replace("LAST", "dst"))
    assert "dst.role=output" in [each.partition("  #")[0] for each in made.to_fill]
    _, text = write_launcher(project, PASSED.replace("LAST", "dst"), ["dst.role=output"])
    yaml = (project / "kernels/k/kernel.yaml").read_text()

    assert "scale(src, dst)\n" in text
    assert "{name: dst," in yaml.partition("outputs:")[2]
    assert "name: out," not in yaml


def test_an_argument_beside_other_results_is_copied_as_the_refusal_says(project):
    text = PASSED.replace("LAST", "dst, sums")
    made, _ = write_launcher(project, text)
    assert "out=?  # line 16: return (dst, sums)" in made.to_fill
    with pytest.raises(BadValueError, match=r"say dst\.role=input, which passes a copy"):
        write_launcher(project, text, ["dst.role=output"])

    assert "scale(src, dst.clone())" in write_launcher(project, text, ["dst.role=input"])[1]


def test_a_size_that_is_a_block_is_a_power_of_two_also_where_it_is_assigned_again(project):
    kernel = (
        "@triton.jit\ndef k(x, y, B: tl.constexpr):\n    i = tl.arange(0, B)\n"
        "    tl.store(y + i, tl.load(x + i))\n\n\n"
    )
    text = (
        f"{kernel}def run(x, y):\n    rows, cols = x.shape\n    if cols < 16:\n"
        "        cols = 16\n    k[(rows,)](x, y, B=cols)\n"
    )
    function = summarize_source("k.py", HEAD + text).functions[0]

    assert [each.step for each in function.limits if "cols" in each.sizes] == [0]


def test_strides_of_descriptors_are_multiples_of_16_bytes(project):
    text = (
        f"@triton.jit\ndef k(x, y, m, n, B: tl.constexpr):\n    a = {MAKE.format('x')}\n"
        f"    b = {MAKE.format('y')}\n    b.store([0, 0], a.load([0, 0]))\n\n\n"
        "def run(x, y):\n    m, n = x.shape\n    k[(1,)](x, y, m, n, 64)\n"
    )
    function = summarize_source("k.py", HEAD + text).functions[0]

    assert ("x.shape[1]@7" in str(function.limits)) or any(
        "n" in each.sizes and each.step == 16 for each in function.limits
    )


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ("    found = {}\n    found['y'] = y\n    return found", "returns a dict"),
        ("    found = []\n    found.append(y)\n    return found", "returns a list"),
        ("    return Result(y, n)", "returns an object of Result"),
    ],
)
def test_results_that_are_no_arrays_are_refused_with_the_way_on(project, lines, says):
    text = (
        f"{DOUBLE}def run(x: torch.Tensor):\n    n = x.shape[0]\n    y = torch.empty_like(x)\n"
        f"    _double[(1,)](x, y, n, B=64)\n{lines}\n"
    )
    with pytest.raises(BadValueError, match=f"run {says} .*--from"):
        write_launcher(project, text)


def test_a_sparse_result_is_made_dense(project):
    text = (
        f"{DOUBLE}def run(x: torch.Tensor):\n    n = x.shape[0]\n    y = torch.empty_like(x)\n"
        "    _double[(1,)](x, y, n, B=64)\n    y = y.to_sparse()\n    return y, x.sum()\n"
    )

    assert "return results[0].to_dense(), " in write_launcher(project, text)[1]


@pytest.mark.parametrize(
    "head",
    [
        "def run(layer):\n    w = layer.weight",
        "def run(layer):\n    w, _ = layer.weight, 3",
        "def run(layer):\n    state = layer.weight\n    w = state.view(-1)",
        "def run(layer, x: torch.Tensor):\n    w = layer.weight.data",
    ],
)
def test_arrays_of_an_object_are_refused_with_the_way_on(project, head):
    text = (
        f"{DOUBLE}{head}\n    y = torch.empty_like(w)\n"
        "    _double[(1,)](w, y, w.numel(), B=64)\n    return y\n"
    )
    with pytest.raises(BadValueError, match=r"from an object \(layer\.weight; line 12\).*--from"):
        write_launcher(project, text)


def test_a_number_of_an_object_is_no_array(project):
    text = (
        f"{DOUBLE}def run(x: torch.Tensor, plan):\n    y = torch.empty_like(x)\n"
        "    _double[(1,)](x, y, x.numel(), B=plan.block)\n    return y\n"
    )

    assert any(each.startswith("plan=?") for each in write_launcher(project, text)[0].to_fill)


@pytest.mark.parametrize(
    "launch",
    [
        "Box.double[(1,)](x, y, n, B=64)",
        "self.double[(1,)](x, y, n, B=64)",
        "run = functools.partial(Box.double[(1,)], x, y)\n    run(n, B=64)",
    ],
)
def test_kernels_that_are_static_methods_and_partial_launches(launch):
    kernel = DOUBLE.strip().replace("_double", "double").replace("\n", "\n    ")
    text = (
        f"class Box:\n    @staticmethod\n    {kernel}\n\n\n"
        "class Double(torch.autograd.Function):\n    @staticmethod\n"
        "    def forward(ctx, x, *args, **kwargs):\n        n = x.shape[0]\n"
        "        y = torch.empty_like(x)\n        LAUNCH\n        return y\n"
    ).replace("LAUNCH", launch.replace("\n", "\n    "))
    function = summarize_source("k.py", HEAD + text).functions[0]

    assert (function.name, function.launches) == ("Double", ("Box.double",))
    assert [(p.name, p.role) for p in function.parameters] == [("x", "input"), ("y", "output")]


@pytest.mark.parametrize("packages", [(), ("lib",), ("lib", "lib/deep")])
def test_launch_py_loads_a_file_of_folders_with_and_without_init(project, packages):
    folder = project / "lib/deep"
    folder.mkdir(parents=True)
    for package in packages:
        (project / package / "__init__.py").write_text("")
    (project / "lib/common.py").write_text("FACTOR = 3\n")
    (folder / "near.py").write_text("NEAR = 4\n")
    own = f"{DOUBLE}def run(x: torch.Tensor, y):\n    _double[(1,)](x, y, 8, B=64)\n"
    head = "from ..common import FACTOR\nfrom .near import NEAR\n"
    (folder / "k.py").write_text(head + HEAD + own)
    made = init_project("lib/deep/k.py", name="k")
    code = (project / "kernels/k/launch.py").read_text()
    text = (folder / "k.py").read_text()
    (folder / "k.py").write_text(text.partition("import torch")[0])
    names, path = {*sys.modules}, [*sys.path]
    try:
        spec = importlib.util.spec_from_file_location("drafted", project / "kernels/k/launch.py")
        module = importlib.util.module_from_spec(spec)
        exec(code, module.__dict__ | (space := {"__file__": spec.origin, "__name__": "drafted"}))
        exec(code, space)
        assert (space["_MODULE"].FACTOR, space["_MODULE"].NEAR) == (3, 4)
    finally:
        sys.path[:] = path
        for name in {*sys.modules} - names:
            del sys.modules[name]
    assert not [each for each in made.warnings if "imports" in each]


def test_a_file_that_imports_from_above_the_project_is_warned_of(project):
    (project / "k.py").write_text(
        "from ..other import A\n"
        + HEAD
        + DOUBLE
        + "def run(x, y):\n    _double[(1,)](x, y, 8, B=64)\n"
    )

    assert any("2 folders above it" in each for each in init_project("k.py").warnings)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("x: torch.Tensor", "x: (rows * 2, cols)"),
        (
            "x: torch.Tensor",
            "x : torch.Tensor\n        What is doubled.\n        Shape: (rows * 2, cols).",
        ),
        ("x: torch.Tensor", "- `x`: [rows * 2, cols] of floats"),
    ],
)
def test_shapes_of_docstrings_are_asked_first(project, kind, said):
    text = (
        f'{DOUBLE}def run({kind}, y):\n    """Doubles.\n\n    Args:\n        {said}\n    """\n'
        "    _double[(1,)](x, y, x.numel(), B=64)\n"
    )
    asked = write_launcher(project, text)[0].to_fill

    assert any(each.startswith("x=[rows * 2, cols]  # a guess") for each in asked)


def test_a_reference_may_name_the_axes(project):
    text = (
        f"{DOUBLE}def run(x: torch.Tensor):\n    rows, cols = x.shape\n"
        "    y = torch.empty((rows, cols), device=x.device)\n"
        "    _double[(1,)](x, y, rows * cols, B=64)\n    return y\n"
    )
    write_launcher(project, text, ["dtype=float32", "reference=x.view(rows * cols).view(rows, -1)"])
    code = (project / "kernels/k/reference.py").read_text()

    assert "    rows = x.shape[0]\n    cols = x.shape[1]\n    return x.view" in code


def test_dtypes_that_a_name_has_are_offered_and_windows_are_short(project):
    text = (
        f"{DOUBLE}def run_int8(x: torch.Tensor, w: torch.Tensor):\n    length = x.shape[0]\n"
        "    (kernel_size,) = w.shape\n    y = torch.empty_like(x)\n"
        "    _double[(1,)](x, y, length, B=64)\n    return y\n"
    )
    asked = write_launcher(project, text, ["x=[length]"])[0].to_fill
    yaml = (project / "kernels/k/kernel.yaml").read_text()

    assert any(each.startswith("dtype=") and "int8" in each for each in asked)
    assert "large: {length: 3072, kernel_size: 5}" in yaml


@pytest.mark.parametrize(("test", "low"), [("i >= 0", ", low: -1"), ("r < n", "")])
def test_an_index_is_drawn_over_all_rows_that_it_numbers(project, test, low):
    text = (
        "@triton.jit\ndef k(rows, at, y, n, D, B: tl.constexpr):\n    r = tl.program_id(0)\n"
        f"    i = tl.load(at + r)\n    c = tl.arange(0, B)\n    ok = ({test}) & (c < D)\n"
        "    tl.store(y + r * D + c, tl.load(rows + i * D + c, mask=ok), mask=c < D)\n\n\n"
        "def pick(rows: torch.Tensor, at: torch.Tensor, y: torch.Tensor):\n"
        "    count, D = rows.shape\n    n = at.shape[0]\n    k[(n,)](rows, at, y, n, D, B=64)\n"
    )
    write_launcher(project, text, ["at=[n]", "at.dtype=int32"])
    yaml = (project / "kernels/k/kernel.yaml").read_text()

    assert f"name: at, shape: [n], dtype: int32, fill: integers, scale: count{low}}}" in yaml


def test_a_result_that_is_computed_from_what_a_kernel_wrote_is_asked(project):
    text = (
        f"{DOUBLE}def run(x: torch.Tensor):\n    rows, cols = x.shape\n"
        "    y = torch.empty_like(x)\n    peak = torch.zeros(rows, device=x.device)\n"
        "    _double[(1,)](x, y, x.numel(), B=64)\n    half, spare = peak / 2, rows - 1\n"
        "    step = peak / 127.0\n    count = x.numel() * 2\n    return y, step\n"
    )
    asked = write_launcher(project, text.replace("y, step", "y, step, peak + x"))[0].to_fill
    drafted = (project / "kernels/k/kernel.yaml").read_text()

    assert "name: step, shape: [rows]" in drafted
    assert any(each.startswith("step.dtype=") for each in asked)
    assert any(each.startswith("out2=") for each in asked)


def test_a_forward_of_the_class_takes_neither_cls_nor_ctx(project):
    text = (
        f"{DOUBLE}class Twice(torch.autograd.Function):\n    @classmethod\n"
        "    def forward(cls, ctx, x):\n        y = torch.empty_like(x)\n"
        "        _double[(1,)](x, y, x.numel(), B=64)\n        return y\n"
    )
    write_launcher(project, text, ["x=[n]", "dtype=float32", "reference=x * 2"])

    assert "apply(x)" in (project / "kernels/k/launch.py").read_text()


def test_a_table_that_is_read_at_elements_holds_no_offsets(project):
    text = (
        "import torch, triton\nimport triton.language as tl\n\n\n@triton.jit\n"
        "def _mix(x, table, y, n, B: tl.constexpr):\n    at = tl.arange(0, B)\n"
        "    key = tl.load(x + at, mask=at < n)\n    low = tl.load(table + key)\n"
        "    high = tl.load(table + key + 1)\n    tl.store(y + at, low + high, mask=at < n)\n\n\n"
        "def run(x, table, y):\n    _mix[(1,)](x, table, y, x.numel(), B=64)\n"
    )
    asked = write_launcher(project, text)[0].to_fill

    assert not any(each.startswith("table.fill") for each in asked)


SUMMED = """\
@triton.jit
def _sum(x, y, s, n, ADD: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, B)
    v = tl.load(x + r * n + i, mask=i < n, other=0.0)
    tl.store(y + r * n + i, v * 2, mask=i < n)
    if ADD:
        tl.store(s + r, tl.sum(v))


def run(x: torch.Tensor, with_sum=False, order="rows", bias=None):
    if order == "rows":
        rows, n = x.shape
    else:
        n, rows = x.shape
    y = torch.empty_like(x)
    if bias is not None:
        y = y + bias
    if with_sum:
        s = torch.empty([rows], dtype=torch.float32, device=x.device)
    else:
        s = torch.empty([0], dtype=torch.float32, device="cpu")
    _sum[(rows,)](x, y, s, n, with_sum, 64)
    return y, s
"""


def test_what_an_option_leaves_out_is_no_output_unless_the_option_is_said(project):
    made, code = write_launcher(project, SUMMED)
    yaml = (project / "kernels/k/kernel.yaml").read_text()
    assert "return results[0],\n" in code
    assert "name: s," not in yaml
    assert "name: x, shape: [rows, n]" in yaml
    assert not any("role" in each for each in made.to_fill)

    _, code = write_launcher(project, SUMMED, ["with_sum=True"])
    yaml = (project / "kernels/k/kernel.yaml").read_text()
    assert "_MODULE.run(x, True)" in code
    assert "name: s, shape: [rows], dtype: float32" in yaml


def test_an_option_that_is_said_is_passed_and_decides_the_branch(project):
    _, code = write_launcher(project, SUMMED, ["order='columns'"])

    assert "_MODULE.run(x, False, 'columns')" in code
    assert "name: x, shape: [n, rows]" in (project / "kernels/k/kernel.yaml").read_text()


def test_an_option_that_is_none_becomes_an_array_where_its_shape_is_said(project):
    _, code = write_launcher(project, SUMMED, ["bias=[n]"])

    assert "_MODULE.run(x, False, 'rows', bias)" in code
    assert "name: bias, shape: [n]" in (project / "kernels/k/kernel.yaml").read_text()


def test_an_argument_that_is_taken_by_name_only_is_passed_so(project):
    text = (
        f"{DOUBLE}def run(x: torch.Tensor, *, block, warps=4):\n    y = torch.empty_like(x)\n"
        "    _double[(1,)](x, y, x.numel(), B=block, num_warps=warps)\n    return y\n"
    )
    made, _ = write_launcher(project, text)
    assert any(each.startswith("block=?") for each in made.to_fill)

    assert "run(x, block=64, warps=8)" in write_launcher(project, text, ["block=64", "warps=8"])[1]


@pytest.mark.parametrize("entry", ["    fill(x, y, 2)\n    return y", "    return Fill.apply(x)"])
def test_the_function_that_calls_a_launcher_may_be_chosen(project, entry):
    text = (
        f"{DOUBLE}def fill(x: torch.Tensor, y: torch.Tensor, times):\n"
        "    _double[(1,)](x, y, x.numel(), B=64)\n\n\n"
        "class Fill(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n"
        "        y = torch.empty_like(x)\n        _double[(1,)](x, y, x.numel(), B=64)\n"
        f"        return y\n\n\ndef twice(x: torch.Tensor):\n    y = torch.empty_like(x)\n{entry}\n"
    )
    _, code = write_launcher(project, text, kernel="twice")

    assert "_MODULE.Fill.apply(x)" in code if "apply" in entry else "_MODULE.twice(x)" in code


def test_what_the_public_function_passes_to_the_autograd_class_is_taken(project):
    text = (
        f"{DOUBLE}class Fill(torch.autograd.Function):\n    @staticmethod\n"
        "    def forward(ctx, x, eps, exact):\n        y = torch.empty_like(x)\n"
        "        _double[(1,)](x, y, x.numel(), B=64)\n        return y\n\n\n"
        "def fill(x, eps=1e-05, exact=False):\n    return Fill.apply(x, eps, exact)\n"
    )

    assert "_MODULE.Fill.apply(x, 1e-05, False)" in write_launcher(project, text)[1]


def test_of_functions_of_one_name_only_the_last_is_there(project):
    twice = "def _(x: torch.Tensor, y):\n    _double[(1,)](x, y, 8, B=64)\n\n\n"
    text = (
        f"{DOUBLE}{twice}{twice}"
        "def run(a: torch.Tensor, b: torch.Tensor):\n    _double[(1,)](a, b, 8, B=64)\n\n\n"
        "def run(x: torch.Tensor, y: torch.Tensor):\n    _double[(1,)](x, y, 8, B=64)\n"
    )
    functions = summarize_source("k.py", HEAD + text).functions

    assert [(f.name, f.parameters[0].name) for f in functions] == [("run", "x")]


HEADS = """\
@triton.jit
def _share(q, k, y, GROUP: tl.constexpr, D: tl.constexpr):
    h = tl.program_id(0)
    i = tl.arange(0, D)
    tl.store(y + h * D + i, tl.load(q + h * D + i) * tl.load(k + (h // GROUP) * D + i))


def share(q: torch.Tensor, k: torch.Tensor):
    heads, D = q.shape
    few, _ = k.shape
    y = torch.empty_like(q)
    _share[(heads,)](q, k, y, WHOLE // PART, D=64)
    return y
"""


@pytest.mark.parametrize(
    ("whole", "part"), [("heads", "few"), ("q.shape[0]", "k.shape[0]"), ("q.size(0)", "few")]
)
def test_a_size_that_another_one_is_divided_by_divides_it(project, whole, part):
    text = HEADS.replace("WHOLE", whole).replace("PART", part)
    write_launcher(project, text, ["k=[few, D]", "dtype=float32", "reference=q * 2"])
    kernel = load_kernel(str(project / "kernels/k")).kernel

    assert all(s["heads"] % s["few"] == 0 for s in kernel.workloads.values())


@pytest.mark.parametrize(
    ("said", "shape"), [("few=heads", "[heads, d]"), ("heads=4 * few", "[few, d]")]
)
def test_an_axis_may_be_said_to_be_an_expression_of_another(project, said, shape):
    text = HEADS.replace("WHOLE", "heads").replace("PART", "few")
    write_launcher(project, text, ["k=[few, D]", said])
    yaml = (project / "kernels/k/kernel.yaml").read_text()

    assert f"name: k, shape: {shape}" in yaml
    assert said.partition("=")[0] not in yaml.partition("axes: ")[2].partition("\n")[0]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("import triton.ops", r"triton\.ops \(line 6\)"),
        ("from triton.language import libdevice", r"triton\.language\.libdevice"),
        ("wide = lambda x: tl.libdevice.exp(x)", r"tl\.libdevice \(line 6\)"),
        ("wide = lambda x: tl.math.tanh(x)", r"tl\.math\.tanh"),
        ("@triton.jit\ndef old(x, **meta):\n    pass", r"\*\*meta of old \(line 7\)"),
    ],
)
def test_what_new_releases_of_triton_lack_is_warned_of(project, line, says):
    text = f"{line}\n\n\n{DOUBLE}def run(x, y):\n    _double[(1,)](x, y, 8, B=64)\n"
    made, _ = write_launcher(project, text)

    assert re.search(says, "\n".join(made.warnings))
    assert not any(
        "Triton" in each for each in write_launcher(project, text.replace(line, ""))[0].warnings
    )


CHUNKED = """\
@triton.jit
def _chunk(x, y, start, USE: tl.constexpr, L: tl.constexpr):
    i = tl.program_id(0) * L + tl.arange(0, L)
    v = tl.load(x + i)
    if USE:
        v += tl.load(start + i)
    tl.store(y + i, v)


def chunk(x: torch.Tensor, start: torch.Tensor = None, scale: torch.Tensor = None, size: int = 96):
    rows, length = x.shape
    L = size
    assert length % L == 0
    USE = start is not None
    if USE:
        assert scale is not None
        step = scale.stride(0)
    else:
        step = 0
    y = torch.empty_like(x)
    _chunk[(rows,)](x, y, start, USE, L)
    return y
"""


def test_what_is_asserted_only_beside_an_optional_array_is_not_needed(project):
    _, code = write_launcher(project, CHUNKED)
    assert "_MODULE.chunk(x)\n" in code

    _, code = write_launcher(project, CHUNKED, ["start=[rows, length]", "scale=[rows]"])
    assert "_MODULE.chunk(x, start, scale)\n" in code


def test_a_size_is_a_multiple_of_the_default_that_it_is_checked_with(project):
    write_launcher(project, CHUNKED, ["dtype=float32", "reference=x * 2"])
    kernel = load_kernel(str(project / "kernels/k")).kernel

    assert all(sizes["length"] % 96 == 0 for sizes in kernel.workloads.values())


@pytest.mark.parametrize(
    "check",
    [
        "assert x.shape[-1] in [16, 32, 64]",
        "assert cols in {16, 32, 64}, 'no'",
        "if x.size(1) not in (16, 32, 64):\n        raise ValueError",
        "assert rows > 1 and cols == 64",
    ],
)
def test_a_size_is_one_of_those_that_are_checked(project, check):
    text = (
        f"{DOUBLE}def run(x: torch.Tensor):\n    rows, cols = x.shape\n    {check}\n"
        "    y = torch.empty_like(x)\n    _double[(1,)](x, y, x.numel(), B=64)\n    return y\n"
    )
    write_launcher(project, text, ["dtype=float32", "reference=x * 2"])
    kernel = load_kernel(str(project / "kernels/k")).kernel

    assert {sizes["cols"] for sizes in kernel.workloads.values()} == {64}


def test_of_definitions_for_several_releases_those_for_the_newest_count(project):
    launch = "    _double[(1,)](x, NAME, 8, B=64)\n"
    lines = f"{DOUBLE}def run(x: torch.Tensor, NAME: torch.Tensor):\n{launch}"
    inner = "    " + lines.strip().replace("\n", "\n    ") + "\n"
    text = (
        f"if triton.__version__ >= '2.1.0':\n{inner.replace('NAME', 'new')}"
        f"elif triton.__version__ == '2.0.0':\n{inner.replace('NAME', 'old')}"
        "else:\n    raise ImportError\n"
    )
    made, _ = write_launcher(project, text)

    assert any(each.startswith("new=") for each in made.to_fill)
    assert not any(each.startswith("old=") for each in made.to_fill)


def test_of_two_checked_dtypes_none_is_taken(project):
    text = (
        f"{DOUBLE}def run(x: torch.Tensor, y: torch.Tensor):\n"
        "    assert (x.dtype == torch.bfloat16 or x.dtype == torch.float16)\n"
        "    _double[(1,)](x, y, x.numel(), B=64)\n"
    )

    assert "x.dtype=bfloat16  # or float16;" in str(write_launcher(project, text)[0].to_fill)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "from far import far_kernel\n\n\ndef run(x, y):\n    n = x.shape[0]\n"
            "    far_kernel[(n,)](x, y, n, B=64)\n",
            "far_kernel of another file",
        ),
        (
            f"{DOUBLE}def run(x, y):\n    count = torch.distributed.get_world_size()\n"
            "    _double[(count,)](x, y, 8, B=64)\n",
            "runs in several processes",
        ),
    ],
)
def test_what_a_draft_cannot_give_is_warned_of(project, text, says):
    assert says in str(write_launcher(project, text)[0].warnings)


def test_a_long_docstring_is_read_at_once():
    said = "".join(f"                Line {at} of what this is for.\n" for at in range(60))
    text = (
        f'{DOUBLE}def run(x, y, how: str):\n    """Doubles.\n\n    Args:\n        how: A name.\n'
        f'{said}    """\n    _double[(1,)](x, y, x.numel(), B=64)\n'
    )
    start = time.monotonic()
    summarize_source("k.py", HEAD + text)

    assert time.monotonic() - start < 5


def test_an_array_of_which_only_named_rows_are_written_may_keep_the_others(project):
    text = (
        "@triton.jit\ndef k(x, at, y, D, B: tl.constexpr):\n    r = tl.program_id(0)\n"
        "    i = tl.load(at + r)\n    c = tl.arange(0, B)\n    place = y + i * D + c\n"
        "    tl.store(place, tl.load(x + r * D + c, mask=c < D), mask=c < D)\n\n\n"
        "def put(x: torch.Tensor, at: torch.Tensor, y: torch.Tensor):\n"
        "    n, D = x.shape\n    k[(n,)](x, at, y, D, B=64)\n"
    )
    asked = write_launcher(project, text)[0].to_fill

    assert any(each.startswith("y.role=both  # or ") for each in asked)
    assert read_arrays(text.replace("y + i * D", "y + r * D"))["y"] == ("output", True)


def test_what_a_kernel_subtracts_or_compiles_in_is_no_array(project):
    text = (
        "@triton.jit\ndef k(x, y, longest, part, W: tl.constexpr):\n    i = tl.arange(0, W)\n"
        "    shift = longest - part\n    tl.store(y + i, tl.load(x + shift + i))\n\n\n"
        "def run(x: torch.Tensor, y: torch.Tensor, longest, width):\n"
        "    k[(1,)](x, y, longest, 2, W=width)\n"
    )
    asked = write_launcher(project, text)[0].to_fill

    assert any(each.startswith("longest=?  # an array's shape, as [n], or a nu") for each in asked)
    assert "name: width" not in (project / "kernels/k/kernel.yaml").read_text()


def test_starts_and_lengths_that_are_drawn_on_their_own_are_warned_of(project):
    text = (
        "@triton.jit\ndef k(x, starts, lens, y, B: tl.constexpr):\n    r = tl.program_id(0)\n"
        "    at = tl.load(starts + r)\n    n = tl.load(lens + r)\n    c = tl.arange(0, B)\n"
        "    tl.store(y + at + c, tl.load(x + at + c, mask=c < n), mask=c < n)\n\n\n"
        "def put(x: torch.Tensor, ARRAYS: torch.Tensor, y: torch.Tensor, max_len):\n"
        "    k[(8,)](x, b_start, b_len, y, B=max_len)\n"
    )
    made, _ = write_launcher(project, text.replace("ARRAYS", "b_start: torch.Tensor, b_len"))

    assert "b_start, b_len, max_len are places or lengths of parts" in str(made.warnings)


FRESH = (
    f"{DOUBLE}def clear(z):\n    z.add_(1)\n\n\n"
    "def run(x: torch.Tensor, kept: torch.Tensor):\n    n = x.numel()\n"
    "    fresh = kept.clone()\n    _double[(1,)](x, fresh, n, B=64)\n    LAST\n"
)


@pytest.mark.parametrize(
    ("last", "roles"),
    [
        ("kept.copy_(fresh)", ("input", "both")),
        ("kept[:].copy_(fresh)", ("input", "both")),
        ("kept.view(-1).mul_(fresh)", ("input", "both")),
        ("kept[0] = fresh[0]", ("input", "both")),
        ("kept += fresh", ("input", "both")),
        ("torch.add(x, fresh, out=kept)", ("input", "both")),
        ("flat = kept.view(-1)\n    flat.copy_(fresh)", ("input", "both")),
        ("clear(z=kept)", ("input", "both")),
        ("clear(kept)", ("input", "both")),
        ("kept.requires_grad_()", ("input", "input")),
        ("kept = kept.clone()\n    kept.add_(1)", ("input", "input")),
    ],
)
def test_what_a_launcher_itself_writes_into_an_argument_counts(last, roles):
    function = summarize_source("k.py", HEAD + FRESH.replace("LAST", last)).functions[0]
    found = ["both" if p.is_read and p.role == "output" else p.role for p in function.parameters]

    assert tuple(found) == roles


def test_an_array_that_is_only_copied_into_is_an_output():
    text = (
        f"{DOUBLE}def run(x: torch.Tensor, y: torch.Tensor):\n    fresh = torch.empty_like(x)\n"
        "    _double[(1,)](x, fresh, x.numel(), B=64)\n    y.copy_(fresh)\n"
    )
    function = summarize_source("k.py", HEAD + text).functions[0]

    assert [(p.role, p.is_read) for p in function.parameters] == [
        ("input", False),
        ("output", False),
    ]


ONE_WAY = """\
@triton.jit
def _move(a, b, n, TO_B: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    CHOICE
    tl.store(target + i, tl.load(origin + i, mask=i < n), mask=i < n)


def move(x: torch.Tensor, y: torch.Tensor, way: bool):
    _move[(8,)](x, y, x.numel(), TO_B=WAY, B=64)
"""
CHOICES = (
    "origin = a if TO_B else b\n    target = b if TO_B else a",
    "if TO_B:\n        origin = a\n        target = b\n    else:\n        origin = b\n"
    "        target = a",
)


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize(
    ("way", "roles"),
    [
        ("True", {"x": ("input", True), "y": ("output", True)}),
        ("False", {"x": ("output", True), "y": ("input", True)}),
    ],
)
def test_the_branch_of_a_kernel_that_a_launch_compiles_decides_roles(choice, way, roles):
    assert read_arrays(ONE_WAY.replace("CHOICE", choice).replace("WAY", way)) == roles


@pytest.mark.parametrize("choice", CHOICES)
def test_roles_that_a_flag_of_the_call_decides_are_asked(choice):
    found = read_arrays(ONE_WAY.replace("CHOICE", choice).replace("WAY", "way"))

    assert [is_certain for _, is_certain in found.values()] == [False, False]


POWERED = (
    f"{DOUBLE}def roundUpPow2(n):\n    return 1 << (n - 1).bit_length()\n\n\n"
    "def run(x: torch.Tensor):\n    rows, cols = x.shape\n    CHECK\n"
    "    y = torch.empty_like(x)\n    _double[(1,)](x, y, x.numel(), B=64)\n    return y\n"
)


@pytest.mark.parametrize(
    "check",
    [
        "assert cols == roundUpPow2(cols), 'no'",
        "assert roundUpPow2(x.shape[-1]) == x.shape[-1]",
        "assert is_power_of_two(cols)",
        "assert rows > 1 and cols == nearest(cols)",
        "if cols != roundUpPow2(cols):\n        raise ValueError",
        "if not is_pow2(cols):\n        raise ValueError",
    ],
)
def test_a_size_that_a_function_leaves_as_it_is_is_a_power_of_two(project, check):
    write_launcher(project, POWERED.replace("CHECK", check), ["dtype=float32", "reference=x * 2"])
    kernel = load_kernel(str(project / "kernels/k")).kernel

    assert all(n & (n - 1) == 0 for n in (s["cols"] for s in kernel.workloads.values()))


def test_a_check_of_a_size_by_a_function_is_warned_of(project):
    check = "assert fits(cols, 3), 'no'\n    assert isinstance(rows, int) and len(x.shape) == 2"
    made, _ = write_launcher(project, POWERED.replace("CHECK", check))

    assert [each for each in made.warnings if "fits" in each] == [
        "line 18: assert fits(cols, 3): what it needs of cols was not read; check the sizes of "
        "the workloads"
    ]
    assert not any("isinstance" in each for each in made.warnings)


@pytest.mark.parametrize("check", ["assert heads % few == 0", "assert h % few == 0"])
def test_heads_are_multiples_of_those_that_a_check_divides_them_by(project, check):
    text = HEADS.replace("few, _ = k.shape", f"Few = k.shape[0]\n    h = heads\n    {check}")
    text = text.replace("% few", "% Few").replace("WHOLE // PART", "heads // Few")
    write_launcher(project, text, ["k=[few, d]", "dtype=float32", "reference=q * 2"])
    kernel = load_kernel(str(project / "kernels/k")).kernel

    assert all(s["heads"] % s["few"] == 0 for s in kernel.workloads.values())


def test_parts_of_an_array_are_fewer_than_its_elements(project):
    text = (
        "@triton.jit\ndef k(x, begins, y, D, B: tl.constexpr):\n    r = tl.program_id(0)\n"
        "    low = tl.load(begins + r)\n    high = tl.load(begins + r + 1)\n"
        "    c = tl.arange(0, B)\n    v = 0.0\n    for i in range(low, high):\n"
        "        v += tl.load(x + i * D + c, mask=c < D)\n"
        "    tl.store(y + r * D + c, v, mask=c < D)\n\n\n"
        "def run(x: torch.Tensor, begins: torch.Tensor, y: torch.Tensor):\n"
        "    total, D = x.shape\n    k[(begins.shape[0] - 1,)](x, begins, y, D, B=64)\n"
    )
    said = ["begins=[count + 1]", "begins.dtype=int32", "begins.fill=offsets total"]
    write_launcher(project, text, [*said, "y=[count, D]", "dtype=float32", "reference=x"])
    yaml = (project / "kernels/k/kernel.yaml").read_text()
    rows = re.findall(r"total: (\d+), d: \d+, count: (\d+)", yaml)

    assert len(rows) == 2
    assert all(int(count) * 16 <= int(total) for total, count in rows)


WORDED = (
    f"{DOUBLE}def run(x: torch.Tensor, mode: str, way='up', steps=3):\n"
    "    assert mode in ('mean', 'sum'), mode\n    y = torch.empty_like(x)\n"
    "    _double[(1,)](x, y, x.numel(), B=64)\n    return y\n"
)


@pytest.mark.parametrize(
    ("said", "passed"),
    [
        (["mode=mean"], "run(x, 'mean')"),
        (["mode='sum'", "way=down"], "run(x, 'sum', 'down')"),
        (['mode="sum"', 'way="down"'], "run(x, 'sum', 'down')"),
    ],
)
def test_a_word_is_passed_as_a_string_where_the_argument_is_one(project, said, passed):
    made, _ = write_launcher(project, WORDED)
    assert any(each.startswith("mode=mean  # or sum; ") for each in made.to_fill)

    assert passed in write_launcher(project, WORDED, said)[1]


def test_a_word_for_another_number_is_refused_with_how_a_string_is_said(project):
    made, _ = write_launcher(project, WORDED, ["steps=many"])

    assert "a number, or a string as 'steps=\"many\"'" in "\n".join(made.to_fill)


@pytest.mark.parametrize("package", [False, True])
def test_what_the_projects_own_modules_import_is_looked_for_too(project, package):
    folder = project / "lib"
    (folder / "util").mkdir(parents=True)
    if package:
        (folder / "__init__.py").write_text("import absent_from_the_package_itself\n")
    (folder / "util/__init__.py").write_text("from .deep import *\nfrom . import k\n")
    (folder / "util/deep.py").write_text("import json\n\nimport absent_tracer.marks\n")
    (folder / "util/unused.py").write_text("import absent_and_unused\n")
    (folder / "tried.py").write_text(
        "try:\n    import absent_but_tried\nexcept ImportError:\n    pass\n"
    )
    head = "from lib import util\nfrom lib.tried import *\n"
    text = head + HEAD + DOUBLE + "def run(x, y):\n    _double[(1,)](x, y, 8, B=64)\n"
    (folder / "k.py").write_text(text)
    found = [each for each in init_project("lib/k.py", name="k").warnings if "imports" in each]

    assert found == [
        "lib/util/deep.py:3 imports absent_tracer.marks, which is neither in the project nor "
        "installed: without it k.py does not load"
    ]


LOOKUP = """\
@triton.jit
def _rows(at, rows, y, D, B: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, B)
    PLACE
    tl.store(y + r * D + c, tl.load(PART, mask=c < D), mask=c < D)


def pick(keys, rows: torch.Tensor):
    count, D = rows.shape
    n = keys.numel()
    y = torch.empty((n, D), device=rows.device, dtype=rows.dtype)
    _rows[(n,)](GIVEN, rows, y, D, B=64)
    return y
"""


@pytest.mark.parametrize(
    ("place", "part"),
    [
        ("rows += tl.load(at + r) * D", "rows + c"),
        ("rows = rows + tl.load(at + r) * D", "rows + c"),
        ("at += r\n    rows += tl.load(at) * D", "rows + c"),
        ("i = r\n    i -= tl.load(at + r)\n    i = tl.multiple_of(i * D, 8)", "rows + i + c"),
        ("i = tl.load(at + r).to(tl.int64)\n    p = rows + (i + 1) * D", "p + c"),
        ("p = rows + c\n    p += tl.load(at + r) * D", "p"),
        ("i, j = tl.load(at + r), 0\n    p = tl.where(r > 0, i, j) * D", "rows + p + c"),
        ("i = 0\n    for j in range(tl.load(at + r)):\n        i = j", "rows + i * 8 + c"),
    ],
)
@pytest.mark.parametrize("given", ["keys", "keys.view(-1)", "keys[1:]"])
def test_what_is_part_of_an_address_holds_integers_and_is_asked_for(project, place, part, given):
    text = LOOKUP.replace("PLACE", place).replace("PART", part).replace("GIVEN", given)
    asked = write_launcher(project, text)[0].to_fill
    shared = next(each for each in asked if each.startswith("dtype="))

    assert any(each.startswith("keys.dtype=int64  # or int32; ") for each in asked)
    assert "keys" not in shared
    assert any(re.match(r"keys\.fill=\?  # line \d+: .*keys\.fill='inte", each) for each in asked)


@pytest.mark.parametrize("given", ["keys", "keys.view(-1)"])
def test_an_index_of_rows_is_bounded_by_them_also_where_a_view_of_it_is_passed(project, given):
    text = LOOKUP.replace("PLACE", "i = tl.load(at + r)").replace("GIVEN", given)
    text = text.replace("PART", "rows + i * D + c")
    write_launcher(project, text, ["keys=[n]", "keys.dtype=int64"])
    yaml = (project / "kernels/k/kernel.yaml").read_text()

    assert "name: keys, shape: [n], dtype: int64, fill: integers, scale: count}" in yaml


@pytest.mark.parametrize(
    ("place", "part"),
    [
        ("i = (tl.load(at + r) / 0.5).to(tl.int32)", "rows + i * D + c"),
        ("i = tl.argmax(tl.load(at + c), 0)", "rows + i * D + c"),
        ("i = tl.sum((tl.load(at + c) > 0.5).to(tl.int32))", "rows + i * D + c"),
        ("ok = tl.load(at + r) > 0.5", "rows + tl.where(ok, 1, 0) + c"),
    ],
)
def test_floats_that_decide_on_an_address_stay_floats(project, place, part):
    text = LOOKUP.replace("PLACE", place).replace("PART", part).replace("GIVEN", "keys")
    asked = write_launcher(project, text)[0].to_fill

    assert not any(each.startswith("keys.dtype") for each in asked)


def test_what_is_compared_with_places_holds_integers(project):
    text = LOOKUP.replace("PLACE", "v = tl.load(at + r)\n    hit = v == c").replace("GIVEN", "part")
    text = text.replace("PART", "rows + tl.where(hit, c, 0)")
    text = text.replace("    n = keys", "    part = keys[0:8]\n    n = keys")
    asked = write_launcher(project, text)[0].to_fill

    assert any(each.startswith("keys.dtype=int64") for each in asked)
    assert not any(each.startswith("keys.fill") for each in asked)


def test_arrays_of_places_that_have_to_fit_each_other_are_warned_of(project):
    text = LOOKUP.replace("(at,", "(at, ends,").replace("(GIVEN,", "(keys, bins,")
    text = text.replace("PLACE", "i = tl.load(at + r)\n    j = r - tl.load(ends + i - 1)")
    text = text.replace("PART", "rows + j * D + c").replace("pick(keys", "pick(keys, bins")
    made, _ = write_launcher(project, text)

    assert any("keys, bins are places" in each for each in made.warnings)


TUNED = """\
from dataclasses import dataclass


@dataclass
class Sizes:
    ROWS: int = 896
    few = 2


CONFIGS


@triton.autotune(TUNE, key=["n"])
@triton.jit
def _tile(x, y, n, d, TILE: tl.constexpr):
    r = tl.program_id(0) * TILE + tl.arange(0, TILE)
    tl.store(y + r * d, tl.load(x + r * d) * 2)


def twice(x: torch.Tensor):
    n, d = x.shape
    y = torch.empty_like(x)
    _tile[lambda m: (triton.cdiv(n, m["TILE"]),)](x, y, n, d)
    return y
"""


@pytest.mark.parametrize(
    ("configs", "tune"),
    [
        ("many = [triton.Config({'TILE': 512}), triton.Config({'TILE': 64})]", "many"),
        (
            "many = [triton.Config({'TILE': t}, num_warps=w) for t in [64, 512] for w in (4,)]",
            "many",
        ),
        ("many = [triton.Config({'TILE': 512})]", "list(filter(lambda c: c, many))"),
        ("ts = (64, 512)\nmany = [triton.Config({'TILE': t}) for t in ts]", "configs=many"),
        ("def make():\n    return [triton.Config({'TILE': 512})]", "make()"),
        ("def make():\n    return [triton.Config({'TILE': 512})]\n\n\nmany = make()", "many"),
        (
            "many = [triton.Config({'TILE': t}) for t, w in itertools.product([64, 512], [1024])]",
            "many",
        ),
        ("many = [triton.Config(dict(TILE=512, W=64))]", "many"),
        ("class Own:\n    T: int = 512", "[triton.Config({'TILE': Own.T})]"),
        ("many = [triton.Config({'TILE': t}) for t, w in [(64, 4), (512, 8)]]", "many"),
    ],
)
def test_blocks_that_named_configurations_give_are_read(project, configs, tune):
    text = TUNED.replace("CONFIGS", configs).replace("TUNE", tune)
    made, _ = write_launcher(project, text, ["dtype=float32", "reference=x * 2"])
    kernel = load_kernel(str(project / "kernels/k")).kernel

    assert all(s["n"] % 512 == 0 for s in kernel.workloads.values())
    assert not any("TILE" in each for each in made.warnings)


@pytest.mark.parametrize("given", ["from settings import *", "from settings import many"])
def test_open_blocks_of_configurations_elsewhere_are_warned_of(project, given):
    text = TUNED.replace("CONFIGS", given).replace("TUNE", "many")
    made, _ = write_launcher(project, text)
    masked = text.replace("x + r * d", "x + r * d, mask=r < n").replace("* 2)", "* 2, mask=r < n)")

    assert (
        "_tile: configurations of TILE were not read, and no mask keeps its blocks inside the "
        "arrays: check the sizes of the workloads"
    ) in made.warnings
    assert not any("TILE" in w for w in write_launcher(project, masked)[0].warnings)


@pytest.mark.parametrize(
    ("check", "passed"),
    [
        ("assert n % Sizes.ROWS == 0", "TILE=2"),
        ("assert x.shape[0] % Sizes.ROWS == 0", "TILE=2"),
        ("fits(n)", "TILE=2"),
        ("", "TILE=Sizes.ROWS"),
        ("", "TILE=ROWS"),
    ],
)
def test_constants_of_a_class_or_the_file_bound_sizes(project, check, passed):
    helper = "ROWS = 896\n\n\ndef fits(n):\n    assert n % Sizes.ROWS == 0, 'no'"
    text = TUNED.replace("CONFIGS", helper)
    text = text.replace('@triton.autotune(TUNE, key=["n"])\n', "")
    text = text.replace("    y = torch", f"    {check}\n    y = torch")
    text = text.replace("x, y, n, d)\n    return", f"x, y, n, d, {passed})\n    return")
    write_launcher(project, text, ["dtype=float32", "reference=x * 2"])
    kernel = load_kernel(str(project / "kernels/k")).kernel

    assert all(s["n"] % 896 == 0 for s in kernel.workloads.values())


PEAK = (
    f"{DOUBLE}def peak(x: torch.Tensor):\n    SHAPE\n    v = x.view(-1, x.shape[-1])\n"
    "    M, N = v.shape\n    s = torch.empty((M,), dtype=x.dtype)\n"
    "    _double[(1,)](v, s, M, B=64)\n    CHANGE\n    return RESULT\n"
)


@pytest.mark.parametrize(
    ("change", "result"),
    [
        ("s = s.reshape(x.shape[:-1])", "s"),
        ("lead = x.shape[:-1]\n    s = s.view(*lead)", "s"),
        ("lead = x.shape[:-1]", "s.view(lead)"),
        ("", "s.view(x.shape[:-1])"),
    ],
)
@pytest.mark.parametrize("is_told", [True, False])
def test_a_result_that_is_reshaped_like_an_argument_shares_its_axes(
    project, change, result, is_told
):
    text = PEAK.replace("CHANGE", change).replace("RESULT", result)
    text = text.replace("SHAPE", "b, t, d = x.shape" if is_told else "")
    made, _ = write_launcher(project, text, [] if is_told else ["x=[b, t, N]"])
    yaml = (project / "kernels/k/kernel.yaml").read_text()

    assert is_told == (", shape: [b, t], dtype" in yaml)
    assert is_told != any(re.match(r"(?:s|out)=", each) for each in made.to_fill)


@pytest.mark.parametrize("change", ["s.unsqueeze(-1)", "s.view(-1, 2)", "s.reshape(M, 1)"])
def test_a_result_that_got_another_rank_is_asked(project, change):
    text = PEAK.replace("CHANGE", f"s = {change}").replace("RESULT", "s").replace("SHAPE", "")
    made, _ = write_launcher(project, text, ["x=[M, N]"])

    assert any(each.startswith("s=") for each in made.to_fill)


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("tl.float32", "v = v.to(y.dtype.element_ty)"),
        ("x.dtype.element_ty", ""),
        ("x.type.element_ty", ""),
    ],
)
def test_what_has_the_dtype_of_a_pointer_is_no_pointer(project, start, end):
    text = (
        "@triton.jit\ndef k(x, y, D, B: tl.constexpr):\n    r = tl.program_id(0)\n"
        f"    c = tl.arange(0, B)\n    v = tl.zeros([B], dtype={start})\n"
        "    for i in range(0, D, B):\n"
        "        v += tl.load(x + r * D + i + c, mask=i + c < D)\n"
        f"    {end}\n    tl.store(y + r * B + c, v)\n\n\n"
        "def fold(x: torch.Tensor):\n    N, D = x.shape\n"
        "    y = torch.empty((N, 64), dtype=x.dtype)\n    k[(N,)](x, y, D, 64)\n    return y\n"
    )
    asked = write_launcher(project, text)[0].to_fill

    assert [each for each in asked if each.startswith("x.")] == []


def test_starts_beside_lengths_are_asked_how_to_fill(project):
    text = (
        "@triton.jit\ndef k(x, starts, lens, y, D, B: tl.constexpr):\n    r = tl.program_id(0)\n"
        "    at = tl.load(starts + r)\n    n = tl.load(lens + r)\n    c = tl.arange(0, B)\n"
        "    v = 0.0\n    for i in range(n):\n"
        "        v += tl.load(x + at * D + i * D + c, mask=c < D)\n"
        "    tl.store(y + r * D + c, v, mask=c < D)\n\n\n"
        "def put(x: torch.Tensor, starts: torch.Tensor, lens: torch.Tensor, y: torch.Tensor):\n"
        "    n, D = x.shape\n    k[(8,)](x, starts, lens, y, D, B=64)\n"
    )
    made, _ = write_launcher(project, text)
    filled = [each for each in made.to_fill if each.startswith("starts.fill=")]

    assert len(filled) == 1
    assert "starts + lens" in filled[0]
    assert any("starts, lens are places or lengths" in each for each in made.warnings)


def test_places_below_a_part_of_a_size_make_it_large_enough(project):
    text = LOOKUP.replace("PLACE", "i = tl.load(at + r)").replace("GIVEN", "keys")
    text = text.replace("PART", "rows + i * 512 + c")
    said = ["keys=[n]", "keys.dtype=int64", "keys.fill=integers count // 512"]
    write_launcher(project, text, [*said, "y=[n, D]", "dtype=float32", "reference=rows"])
    kernel = load_kernel(str(project / "kernels/k")).kernel

    assert all(s["count"] % 512 == 0 for s in kernel.workloads.values())


TWICE = f"""\
{DOUBLE}def twice(x: torch.Tensor, MORE):
    N, D = x.shape
    SIZES
    y = torch.empty_like(x)
    _double[(N,)](x, y, x.numel(), B=D)
    return y
"""


@pytest.mark.parametrize("read", ["x.shape[0]", "int(x.shape[0])", "int(x.size(0))"])
def test_a_checked_size_is_read_through_a_cast_to_an_integer(project, read):
    check = f"steps = {read}\n    if steps not in (1, 2, 4):\n        raise ValueError(steps)"
    text = TWICE.replace(", MORE", "").replace("N, D = x.shape\n    ", "assert x.ndim == 2\n    ")
    text = text.replace("SIZES", f"{check}\n    N, D = x.shape")
    write_launcher(project, text, ["dtype=float32", "reference=x * 2"])
    workloads = load_kernel(str(project / "kernels/k")).kernel.workloads

    assert {sizes["n"] for sizes in workloads.values()} <= {1, 2, 4}


@pytest.mark.parametrize(
    ("said", "shape"),
    [
        ("[-(-rows // 64), cols]", "[(rows + 63) // 64, cols]"),
        ("[2 * -(-rows // 64)]", "[2 * ((rows + 63) // 64)]"),
        ("[-(-(rows + 1) // part)]", "[((rows + 1) + part - 1) // part]"),
    ],
)
def test_a_quotient_rounded_up_by_two_signs_is_one_of_a_shape(project, said, shape):
    write_launcher(project, TWICE.replace(", MORE", ", w").replace("SIZES", ""), [f"w={said}"])

    assert f"name: w, shape: {shape}," in (project / "kernels/k/kernel.yaml").read_text()


@pytest.mark.parametrize(
    ("parameter", "use"),
    [
        ("parts: list[int]", "n = parts[0]"),
        ("parts: Tuple[int, ...] | None", "n = parts[0]"),
        ("parts=(1, 2, 3)", "n = parts[0]"),
        ("parts", "t, h, w = parts"),
        ("parts", "n = len(parts)"),
    ],
)
def test_an_answer_for_a_list_of_numbers_is_that_list(project, parameter, use):
    text = TWICE.replace("MORE", parameter).replace("SIZES", use)
    made, call = write_launcher(project, text, ["parts=[24, 20, 20]"])

    assert "twice(x, [24, 20, 20])" in call
    assert not any("parts" in line for line in made.to_fill)
    asked = write_launcher(project, text)[0].to_fill if "(1" not in parameter else []
    assert all("as [1, 2]" in line for line in asked if line.startswith("parts"))


BLOCKED = """\
@triton.jit
def _copy(x, y, n, D: tl.constexpr, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    c = tl.arange(0, D)
    tl.store(y + at[:, None] * D + c, tl.load(x + at[:, None] * D + c))


def copy(x, BLOCK):
    n, d = x.shape
    assert d in (16, 32)
    SET
    y = torch.empty_like(x)
    _copy[(triton.cdiv(n, block),)](x, y, n, D=d, B=block)
    return y
"""


@pytest.mark.parametrize(
    ("parameter", "own", "is_kept"),
    [
        ("block", "", True),
        ("block=64", "", True),
        ("block: int = 32", "", True),
        ("block", "block = 2 * d", False),
    ],
)
def test_a_block_that_was_said_bounds_sizes(project, parameter, own, is_kept):
    text = BLOCKED.replace("BLOCK", parameter).replace("SET", own)
    write_launcher(project, text, ["block=448", "dtype=float32", "reference=x"])
    workloads = load_kernel(str(project / "kernels/k")).kernel.workloads

    assert all(sizes["n"] % 448 == 0 for sizes in workloads.values()) == is_kept


PACKED = f"""\
{DOUBLE}def scan(g: torch.Tensor, w: torch.Tensor):
    rows, three_H = g.shape
    H = three_H // 3
    CHECK
    y = torch.empty((rows, H), device=g.device, dtype=g.dtype)
    _double[(rows,)](g, y, rows * H, B=64)
    return y
"""


@pytest.mark.parametrize("said", ["h", "H", "three_h // 3"])
def test_a_size_that_is_a_part_of_an_axis_is_no_second_axis(project, said):
    told = [f"w=[{said}]", f"y=[rows, {said}]", "dtype=float32", "reference=w"]
    write_launcher(project, PACKED.replace("CHECK", ""), told)
    kernel = load_kernel(str(project / "kernels/k")).kernel
    yaml = (project / "kernels/k/kernel.yaml").read_text()

    assert "axes: [rows, three_h]" in yaml
    assert "name: w, shape: [three_h // 3]," in yaml
    assert all(sizes["three_h"] % 3 == 0 for sizes in kernel.workloads.values())


def test_an_axis_that_is_said_by_its_part_stays_said(project):
    told = ["g=[rows, 3 * h]", "w=[h]", "y=[rows, h]", "dtype=float32", "reference=w"]
    write_launcher(project, PACKED.replace("CHECK", ""), told)

    assert "axes: [rows, h]" in (project / "kernels/k/kernel.yaml").read_text()


FACTORY = f"""\
{DOUBLE}def make(scale=1):
    def run(x, w=None):
        y = torch.empty_like(x)
        _double[(1,)](x, y, x.numel(), B=64)
        return y

    return run


"""


@pytest.mark.parametrize("kernel", [None, "run"])
@pytest.mark.parametrize("bound", ["", "run = make()\n"])
def test_a_function_that_another_one_makes_is_told_with_the_way_to_it(project, bound, kernel):
    (project / "k.py").write_text(HEAD + FACTORY + bound)
    says = r"run \(line 13\) is made by make\(\) when that is called.*def NAME\(x, w\):"

    with pytest.raises(BadValueError, match=says):
        init_project("k.py", kernel=kernel)
    assert not (project / "kernels").exists()


def test_a_function_that_calls_what_a_factory_makes_is_drafted(project):
    _, call = write_launcher(
        project, f"{FACTORY}def go(x):\n    return make()(x)\n", ["x=[n]"], kernel="go"
    )

    assert "_MODULE.go(x)" in call


PAIR = f"""\
{DOUBLE}def _pair(x):
    packed = torch.empty_like(x)
    scales = torch.empty((x.shape[0],), device=x.device, dtype=torch.float16)
    _double[(1,)](x, packed, x.numel(), B=64)
    return RETURNED


def pack(x: torch.Tensor):
    if x.numel() == 0:
        return torch_pack(x)
    return _pair(x)
"""


@pytest.mark.parametrize(
    ("returned", "names"),
    [
        ("packed, scales", ["packed", "scales"]),
        ("packed.view(-1), scales", ["out", "scales"]),
        ("(x, scales)", ["x_out", "scales"]),
    ],
)
def test_what_a_function_of_the_file_returns_in_turn_is_as_many_outputs(project, returned, names):
    text = PAIR.replace("RETURNED", returned)
    made, call = write_launcher(project, text, kernel="pack")
    yaml = (project / "kernels/k/kernel.yaml").read_text()

    assert re.findall(r"{name: (\w+)\b", yaml.partition("outputs:")[2]) == names
    assert "return results[0], results[1]" in call
    assert {*names} <= {line.partition("=")[0] for line in made.to_fill}


LABELS = """\
@triton.jit
def _loss(at, x, y, cols, stride, B: tl.constexpr):
    r = tl.program_id(0)
    MOVE
    place = tl.load(at + r)
    c = tl.arange(0, B)
    top = tl.max(tl.load(x + c, mask=c < cols, other=0.0), 0)
    tl.store(y + r, top - tl.load(x + place))


def loss(x: torch.Tensor, labels: torch.Tensor):
    rows, cols = x.shape
    y = torch.empty((rows,), device=x.device, dtype=torch.float32)
    _loss[(rows,)](labels, x, y, cols, STEP, B=triton.next_power_of_2(cols))
    return y
"""


@pytest.mark.parametrize(
    ("move", "step", "scale"),
    [
        ("x += r * stride", "x.stride(0)", "cols"),
        ("x = x + r * stride.to(tl.int64)", "x.stride(0)", "cols"),
        ("x += r * cols", "0", "cols"),
        ("x += r * stride", "1", None),
        ("x += r * stride * 2", "x.stride(0)", None),
    ],
)
def test_labels_are_places_along_the_axis_that_they_choose_from(project, move, step, scale):
    text = LABELS.replace("MOVE", move).replace("STEP", step)
    told = ["labels=[rows]", "labels.dtype=int64"]
    asked = write_launcher(project, text, told)[0].to_fill
    yaml = (project / "kernels/k/kernel.yaml").read_text()

    if scale:
        assert f"name: labels, shape: [rows], dtype: int64, fill: integers, scale: {scale}" in yaml
    assert any(line.startswith("labels.fill=?") for line in asked) == (scale is None)


STEPPED = f"""\
{DOUBLE}@triton.jit
def _mix(x, d, y, n, s0, s1, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i) + tl.load(d + i * s0), mask=i < n)


def mix(x: torch.Tensor, d=None, z=None):
    if d is not None and d.dim() == 1:
        d = d.unsqueeze(0)
    y = torch.empty_like(x)
    _mix[(1,)](x, d, y, x.numel(), *(d.stride(0), d.stride(1)) if d is not None else LEFT, 64)
    return y
"""


@pytest.mark.parametrize(("left", "is_asked"), [("0", True), ("None", True), ("(0, 0)", False)])
def test_an_optional_array_without_which_a_call_cannot_be_written_is_asked(project, left, is_asked):
    asked = write_launcher(project, STEPPED.replace("LEFT", left))[0].to_fill

    assert any(line.startswith("d=") for line in asked) == is_asked
    assert not any(line.startswith("z=") for line in asked)


CHOSEN = """\
@triton.jit
def _pick(x, a, b, n, A: tl.constexpr, KEEP: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    if KEEP:
        tl.store(x + i, v, mask=i < n)
    if A:
        tl.store(a + i, v * 2, mask=i < n)
    if b is not None:
        tl.store(b + i, v * 3, mask=i < n)
    ALWAYS


def pick(x: torch.Tensor, a=None, b=None, keep=False):
    _pick[(1,)](x, a, b, x.numel(), A=a is not None, KEEP=keep, B=64)
    return x, a, b
"""


@pytest.mark.parametrize("always", ["", "tl.store(x + i, v * 2, mask=i < n)"])
def test_optional_arrays_without_which_nothing_is_stored_are_asked(project, always):
    text = CHOSEN.replace("    ALWAYS\n", f"    {always}\n" if always else "")
    asked = [line.partition("=")[0] for line in write_launcher(project, text)[0].to_fill]

    assert ({"a", "b", "a.dtype", "b.dtype"} <= {*asked}) == (not always)
    if not always:
        _, call = write_launcher(project, text, ["a=[n]", "b=None"])
        assert "pick(x, a, None)" in call
