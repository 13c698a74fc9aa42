"""Axes, workloads and code from observed calls, without running anything."""

import ast

import pytest

from kernelkb.scaffold.observed.callee import Places, draft_call
from kernelkb.scaffold.observed.calls import (
    ObservedKernel,
    SizeCode,
    draft_input_function,
    draft_observed_yaml,
    find_size,
    list_constant_inputs,
    list_lost_values,
    plan_calls,
)
from kernelkb.scaffold.observed.recipes import make_fill
from kernelkb.scaffold.observed.slices import FileContext, NotSliceable, slice_function

FILE = """
import argparse
import math
from torch import nn

EPS = math.sqrt(1e-10)
options = argparse.ArgumentParser().parse_args()

@torch.compile
def norm(x, print=None):
    options = None
    return x / (x.abs().mean() + EPS)

def scaled(x):
    return norm(x) * options.scale

print("training")
"""


def make_array(name, shape, **recipe):
    strides = [1] * len(shape)
    for at in range(len(shape) - 2, -1, -1):
        strides[at] = strides[at + 1] * shape[at + 1]
    recipe = recipe or {"kind": "normal", "mean": 0.0, "std": 1.0}
    fields = {"dtype": "float32", "device": "cpu", "strides": strides, "recipe": recipe}
    return {"name": name, "shape": list(shape), **fields}


def make_call(count, rows, cols, numbers=(), dtype="float32"):
    tensors = [make_array("x", (rows, cols)), make_array("weight", (cols,))]
    tensors[0]["dtype"] = dtype
    return {
        "count": count,
        "tensors": tensors,
        "numbers": [{"name": name, "value": value} for name, value in numbers],
        "arguments": {"positional": [{"tensor": 0}, {"tensor": 1}], "named": {}},
        "outputs": [make_array("out", (rows, cols))],
        "changed": [],
        "launch": None,
        "file": None,
    }


def test_sizes_that_are_equal_in_every_call_are_one_axis():
    plan = plan_calls([make_call(2, 8, 64), make_call(5, 12, 64)])

    assert [array.shape for array in plan.inputs] == [("d0", "d1"), ("d1",)]
    assert plan.outputs[0].shape == ("d0", "d1")
    assert list(plan.workloads.values()) == [{"d0": 12, "d1": 64}, {"d0": 8, "d1": 64}]


def test_of_shapes_that_are_as_frequent_the_largest_comes_first():
    plan = plan_calls([make_call(2, 8, 64), make_call(2, 120, 64), make_call(3, 4, 64)])

    assert list(plan.workloads.values()) == [
        {"d0": 4, "d1": 64},
        {"d0": 120, "d1": 64},
        {"d0": 8, "d1": 64},
    ]


def test_calls_of_another_kind_are_left_out_and_counted():
    plan = plan_calls([make_call(5, 8, 64), make_call(2, 8, 64, dtype="float16")])

    assert len(plan.calls) == 1
    assert plan.warnings[0].startswith("2 calls with other dtypes")


def test_a_number_that_varies_is_an_axis_and_one_that_names_a_dimension_is_no_argument():
    calls = [
        make_call(2, 8, 64, [("k", 3), ("dim", 1)]),
        make_call(1, 8, 64, [("k", 5), ("dim", 1)]),
    ]
    plan = plan_calls(calls)

    assert [(number.value, number.is_baked) for number in plan.numbers] == [("k", False), (1, True)]
    assert [sizes["k"] for sizes in plan.workloads.values()] == [3, 5]


def test_inputs_that_no_fill_describes_are_drawn_by_a_function():
    call = make_call(1, 8, 8)
    call["tensors"][0]["recipe"] = {"kind": "causal", "kept": 0.0, "masked": "-inf"}
    plan = plan_calls([call])
    source = draft_input_function(plan)

    assert make_fill(call["tensors"][0]["recipe"], "float32") is None
    assert "tril()" in source
    assert ast.parse(source).body[0].args.args[0].arg == "d0"


@pytest.mark.parametrize(
    ("recipe", "drawn", "lost"),
    [
        (
            {"kind": "offsets", "high": 64, "lengths": [2], "counts": [9]},
            "fill: offsets\n  scale: d1\n",
            "",
        ),
        (
            {"kind": "offsets", "high": 70, "lengths": [2], "counts": [9]},
            "fill: offsets\n  scale: 70.0\n",
            "",
        ),
        (
            {"kind": "sorted", "low": 3, "high": 9},
            "fill: integers\n  scale: 10.0\n  low: 3\n",
            "fill: offsets, scale: 9 draws ascending ones, from 0",
        ),
        (
            {"kind": "arange", "start": 5},
            "fill: integers\n  scale: 13.0\n  low: 5\n",
            "fill: offsets, scale: 12 draws ascending ones, from 0",
        ),
        ({"kind": "arange", "start": 0}, "fill: permutation\n", "ascend; drawn ones do not"),
        ({"kind": "constant", "value": 7}, "fill: integers\n  scale: 8.0\n  low: 7\n", ""),
        (
            {"kind": "distinct", "low": 2, "high": 40, "is_sorted": False},
            "fill: integers\n  scale: 41.0\n  low: 2\n",
            "all differ",
        ),
        (
            {"kind": "integers", "low": -4, "high": -2},
            "fill: integers\n  scale: 1.0\n  low: -4\n",
            "are -4 to -2",
        ),
    ],
)
def test_integers_that_no_function_draws_keep_their_range_and_what_is_lost_is_told(
    recipe, drawn, lost
):
    call = make_call(1, 8, 64)
    call["tensors"][0] |= {"shape": [8], "strides": [1], "recipe": recipe, "dtype": "int32"}
    plan = plan_calls([call])
    kernel = ObservedKernel("k", "m:k", "python p.py", (), plan, "variant")

    assert drawn in draft_observed_yaml(kernel)
    told = list_lost_values(plan)
    assert [lost in each for each in told] == [True] * bool(lost)


def test_a_function_is_copied_with_what_it_needs_and_runs_nothing_else():
    copied = slice_function(FILE, "norm")

    assert "EPS = math.sqrt(1e-10)" in copied
    assert "import math" in copied
    assert not any(text in copied for text in ("compile", "argparse", "training", "nn"))


def test_what_a_lambda_will_call_is_not_called_where_it_is_defined():
    file = "SCALES = {'late': lambda call: call() or 1.0}\n\ndef scale(x):\n    return SCALES[x]\n"

    assert "SCALES = {'late'" in slice_function(file, "scale")


@pytest.mark.parametrize(
    ("name", "why"), [("scaled", "options, which its file computes"), ("inner", "top level")]
)
def test_a_function_that_needs_the_running_program_is_not_copied(name, why):
    with pytest.raises(NotSliceable, match=why):
        slice_function(FILE, name)


BLOCK = """
import sys
from pathlib import Path
import torch
from torch.utils.cpp_extension import load

KIND = sys.argv[1]
HERE = Path(__file__).parent
load(name="ops", sources=["ops.cpp"], is_python_module=False)
count = 0
count += len(sys.argv)

if KIND == "half":
    flags = ["-O3"]
    more = load(name="more", sources=[str(HERE / "more.cpp")], extra_cflags=flags)

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            rows = load_rows(x)
            return torch.ops.ops.twice(more.twice(x))

    def double(x):
        return Twice.apply(x)

def counted(x):
    return x * count

print(double(torch.ones(3)))
"""


def test_a_function_in_a_block_is_copied_with_the_values_of_the_run_and_its_extensions():
    context = FileContext({"KIND": "'half'", "count": "2"}, "../../train.py", "../..")
    copied = slice_function(BLOCK, "double", context=context)

    assert "KIND = 'half'  # as in the run" in copied
    assert "_run_in_folder(load, name='ops', sources=['ops.cpp']" in copied
    assert "more = _run_in_folder(load, name='more'" in copied
    assert 'os.chdir(Path(__file__).parent / "../..")' in copied
    assert 'HERE = Path(str(Path(__file__).parent / "../../train.py")).parent' in copied
    assert "print(" not in copied
    compile(copied, "copied.py", "exec")


@pytest.mark.parametrize(
    ("name", "context", "why"),
    [
        ("double", FileContext(), r"in a block \(line 13\) that uses load\(...\)"),
        ("double", FileContext(folder=".."), r"uses KIND, which its file computes with sys.argv"),
        ("counted", FileContext({"count": "2"}), r"uses count, which its file computes"),
    ],
)
def test_what_a_file_computes_is_named(name, context, why):
    with pytest.raises(NotSliceable, match=why):
        slice_function(BLOCK, name, context=context)


def test_calls_under_autocast_are_their_own_kind_and_are_repeated_under_it():
    function = {
        "kind": "torch-function",
        "name": "torch.add",
        "module": "torch",
        "qualname": "add",
        "is_method": False,
        "kernels": [],
        "is_library": True,
    }
    half = make_call(3, 8, 64) | {"autocast": {"cuda": "bfloat16", "cpu": "float16"}}
    plan = plan_calls([half, make_call(2, 8, 64) | {"autocast": {}}])
    text = draft_call(function, plan, "", Places({})).text

    assert plan.warnings[0].startswith("2 calls with other dtypes, dimensions or options")
    assert (
        "    with torch.autocast('cuda', dtype=torch.bfloat16), "
        "torch.autocast('cpu', dtype=torch.float16):\n        result = torch.add(" in text
    )


LAUNCH = """
import triton
import triton.language as tl

@triton.jit
def kernel(x, weight, n, stride, BLOCK: tl.constexpr):
    pass
"""


def make_launch(rows, cols, grid, block):
    call = make_call(1, rows, cols, [("n", rows * cols), ("stride", cols)])
    options = {"num_warps": 4, "maxnreg": None}
    call["launch"] = {"grid": grid, "options": options, "constants": {"BLOCK": str(block)}}
    names = {"x": 0, "weight": 1}
    call["arguments"] = {
        "positional": [],
        "named": {
            **{name: {"tensor": at} for name, at in names.items()},
            "n": {"number": 0},
            "stride": {"number": 1},
        },
    }
    call["changed"], call["outputs"] = [0], [make_array("x_after", (rows, cols))]
    return call


def draft_launched(calls, **options):
    function = {"name": "a:kernel", "kind": "triton", "module": "a", "qualname": "kernel"}
    function |= {"is_method": False, "is_library": False}
    return draft_call(function, plan_calls(calls, **options), LAUNCH, Places({})).text


def test_numbers_that_are_sizes_are_passed_as_such_and_an_equal_launch_as_it_was():
    text = draft_launched([make_launch(8, 100, [13], 64), make_launch(12, 100, [13], 64)])

    assert "grid, options = (13,), {'BLOCK': 64, 'num_warps': 4}" in text
    assert "kernel[grid](x=x, weight=weight, n=x.numel(), stride=x.stride(0), **options)" in text


def test_launches_that_differ_are_chosen_by_the_sizes_of_the_call():
    text = draft_launched([make_launch(8, 100, [7], 48), make_launch(12, 100, [11], 80)])

    assert "((8, 100), (100,)): ((7,), {'BLOCK': 48, 'num_warps': 4})," in text
    assert "((12, 100), (100,)): ((11,), {'BLOCK': 80, 'num_warps': 4})," in text
    assert "grid, options = launches[tuple(x.shape), tuple(weight.shape),]" in text


def test_a_tensor_that_is_only_written_is_no_argument():
    text = draft_launched([make_launch(8, 64, [8], 64)], makes_changed=True)

    assert "def observed_call(weight):" in text
    assert "x = torch.empty((8, weight.shape[0]), dtype=torch.float32" in text


@pytest.mark.parametrize(
    ("name", "values", "code"),
    [
        ("n", (800, 1200), "x.numel()"),
        ("stride_x", (100, 100), "x.stride(0)"),
        ("cols", (100, 100), "x.shape[1]"),
        ("group", (1, 1), ""),
        ("scale", (100.0, 100.0), ""),
        ("k", (100, 101), ""),
    ],
)
def test_which_size_a_number_is(name, values, code):
    sizes = [
        SizeCode("x.shape[1]", (100, 100)),
        SizeCode("x.numel()", (800, 1200)),
        SizeCode("x.stride(0)", (100, 100)),
    ]

    assert find_size(name, values, sizes) == code


def test_inputs_of_one_constant_in_every_call_are_told():
    calls = [make_call(2, 8, 64), make_call(1, 12, 64)]
    for call in calls:
        call["tensors"][1]["recipe"] = {"kind": "ones"}
    told = list_constant_inputs(plan_calls(calls))
    calls[1]["tensors"][1]["recipe"] = {"kind": "normal", "mean": 0.0, "std": 1.0}

    assert [text.partition(",")[0] for text in told] == ["weight: all 1 in each recorded call"]
    assert "torch.randn_like" in told[0]
    assert list_constant_inputs(plan_calls(calls)) == []
