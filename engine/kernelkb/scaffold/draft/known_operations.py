"""Recognises common operations by a kernel's name and shapes, and gives their torch expression."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from kernelkb.scaffold.draft.call_signature import Parameter

_EPSILON = "1e-05"
_INTEGERS = ("int", "uint")
"""Types of which torch has no matrix product on a GPU; up to 2**53, double has all of them."""


class Operation(NamedTuple):
    """A rule: names, number of inputs, which shapes it needs, and the expression."""

    pattern: str
    inputs: int
    shapes: str
    """same: output as input 0. all: every array alike. gemm, gemv, transpose, rows, one."""
    expression: str
    """``{0}`` is the first floating-point input, ``{number}`` the first number, ``{eps}``."""


def _unary(names: str, expression: str) -> Operation:
    return Operation(rf"(?:{names})", 1, "same", expression)


_F = "torch.nn.functional."
_OPERATIONS = (
    Operation(
        "silu_(?:and_)?mul", 1, "half", f"{_F}silu({{0}}.chunk(2, -1)[0]) * {{0}}.chunk(2, -1)[1]"
    ),
    Operation(
        "gelu_(?:and_)?mul", 1, "half", f"{_F}gelu({{0}}.chunk(2, -1)[0]) * {{0}}.chunk(2, -1)[1]"
    ),
    Operation("swiglu|silu_mul|swi_glu", 2, "all", f"{_F}silu({{0}}) * {{1}}"),
    Operation("geglu|ge_glu", 2, "all", f'{_F}gelu({{0}}, approximate="tanh") * {{1}}'),
    _unary("log_softmax|logsoftmax", "torch.log_softmax({0}, dim=-1)"),
    _unary("softmax", "torch.softmax({0}, dim=-1)"),
    Operation(
        "rms_?norm", 2, "same", "{0} * torch.rsqrt({0}.pow(2).mean(-1, keepdim=True) + {eps}) * {1}"
    ),
    _unary("rms_?norm", "{0} * torch.rsqrt({0}.pow(2).mean(-1, keepdim=True) + {eps})"),
    Operation(
        "layer_?norm", 3, "same", f"{_F}layer_norm({{0}}, {{0}}.shape[-1:], {{1}}, {{2}}, {{eps}})"
    ),
    Operation(
        "layer_?norm", 2, "same", f"{_F}layer_norm({{0}}, {{0}}.shape[-1:], {{1}}, None, {{eps}})"
    ),
    _unary("layer_?norm", f"{_F}layer_norm({{0}}, {{0}}.shape[-1:], None, None, {{eps}})"),
    _unary("l2_?norm(?:alize)?", f"{_F}normalize({{0}}, dim=-1)"),
    _unary("leaky_?relu", f"{_F}leaky_relu({{0}})"),
    _unary("relu6", f"{_F}relu6({{0}})"),
    _unary("relu", "torch.relu({0})"),
    _unary("gelu_?tanh", f'{_F}gelu({{0}}, approximate="tanh")'),
    _unary("gelu", f"{_F}gelu({{0}})"),
    _unary("silu|swish", f"{_F}silu({{0}})"),
    _unary("sigmoid", "torch.sigmoid({0})"),
    _unary("hard_?swish", f"{_F}hardswish({{0}})"),
    _unary("hard_?shrink", f"{_F}hardshrink({{0}})"),
    _unary("elu", f"{_F}elu({{0}})"),
    _unary("tanh", "torch.tanh({0})"),
    _unary("exp", "torch.exp({0})"),
    _unary("sqrt", "torch.sqrt({0})"),
    _unary("square", "{0} * {0}"),
    _unary("abs", "{0}.abs()"),
    _unary("neg", "-{0}"),
    Operation("saxpy|axpy|daxpy", 2, "all", "{number} * {0} + {1}"),
    Operation("mul_?add|fma", 2, "all", "{0} * {1} + {number}"),
    Operation("triad", 2, "all", "{0} + {number} * {1}"),
    _unary("add_?one|plus_?one|increment|inc", "{0} + 1"),
    Operation("add2?|vec_?add|vadd|sum_?arrays?|sum_?matrix", 2, "all", "{0} + {1}"),
    Operation("sub|subtract", 2, "all", "{0} - {1}"),
    Operation("mul|multiply|hadamard", 2, "all", "{0} * {1}"),
    Operation("div|divide", 2, "all", "{0} / {1}"),
    _unary("scale", "{number} * {0}"),
    _unary("copy|memcpy|clone", "{0}.clone()"),
    Operation("transpose", 1, "transpose", "{0}.t().contiguous()"),
    Operation(r"\w*(?:gemv|mat_?vec|mv)", 2, "gemv", "{0} @ {1}"),
    Operation(r"\w*(?:gemm|mat_?mul|matrix_mul\w*|mmul|mm|bmm)", 2, "gemm", "{0} @ {1}"),
    Operation(r"\w*(?:gemm|mat_?mul|matrix_mul\w*|mmul|mm)", 2, "gemm-nt", "{0} @ {1}.t()"),
    Operation(r"\w*(?:gemm|mat_?mul)\w*", 5, "blas", "{0} * ({1} @ {2}) + {3} * {4}"),
    Operation(r"\w*gemm\w*", 3, "gemm-c", "{alpha} * ({0} @ {1}) + {beta} * {2}"),
    Operation("dot|inner_product", 2, "one", "({0} * {1}).sum()"),
    Operation("reduce\\w*max|max_?reduction|amax", 1, "one", "{0}.max()"),
    Operation("reduc\\w*|sum\\w*", 1, "one", "{0}.sum()"),
    Operation("row_?sums?|sum", 1, "rows", "{0}.sum(-1)"),
)


_METHOD_TEXT = """
    kernel kernels cuda gpu cu device host global launch launcher run call do my the test
    forward fwd impl op solution example simple basic naive baseline reference opt optimized
    optimised fast v version step tile tiled tiling block blocked blocks warp warps thread
    threads coalesced unroll unrolled unrolling vec vectorized vectorised pack packed shared
    smem mem register registers reg ldg tma wmma mma async online safe stride strided loop
    grid persistent triton half float double scalar array matrix vector tensor row rows per
    token col cols s d h f x dim elementwise element wise fp inplace out
"""
_WORDS_OF_METHOD = frozenset(_METHOD_TEXT.split())
"""Words of a name that say how a kernel does it, not what. Any other word may change the result:
``scale_add``, ``masked_softmax``."""


def recognise_operation(
    name: str,
    inputs: Sequence[Parameter],
    outputs: Sequence[Parameter],
    numbers: Sequence[Parameter],
) -> str | None:
    """Return a torch expression of ``{0}``, ``{1}`` for a kernel's result; None for none known.

    Args:
        name: The kernel's or launcher's name.
        inputs: Its arrays; integers that are indices do not count.
        outputs: What it writes.
        numbers: Its scalars, with their values.
    """
    if len(outputs) != 1:
        return None
    words = _split_words(name)
    for rule in _OPERATIONS:
        found = re.search(rf"(?:^|_)(?:{rule.pattern})(?:_|$)", words)
        if found is None or len(inputs) != rule.inputs:
            continue
        rest = re.findall("[a-z]+", f"{words[: found.start()]}_{words[found.end() :]}")
        has_number = "{number}" not in rule.expression or any(p.value for p in numbers)
        is_known = has_number and _WORDS_OF_METHOD.issuperset(rest)
        if is_known and _fits(rule.shapes, inputs, outputs[0]):
            return _fill_expression(rule, numbers, outputs[0])
    return None


def _split_words(name: str) -> str:
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    text = re.sub(r"_*(?:fp|f|bf|float|int)\d+(?:x\d+)?|_+x\d+", "_", text)
    return re.sub(r"_+", "_", text).strip("_")


def _fits(rule: str, inputs: Sequence[Parameter], output: Parameter) -> bool:
    shapes = [each.shape for each in inputs]
    first, result = shapes[0], output.shape
    if rule == "all":
        return all(shape == result for shape in shapes)
    if rule == "same":
        return first == result
    if rule == "transpose":
        return len(first) == 2 and result in (first[::-1], first) and first[0] != ""
    if rule == "rows":
        return len(first) == 2 and result == first[:1]
    if rule == "one":
        return result == ("1",) or result == ()
    if rule == "half":
        return len(first) == len(result) and first[:-1] == result[:-1] and first != result
    second = shapes[1]
    if rule == "blas":
        return _fits("gemm", inputs[1:3], output) and first == ("1",)
    if rule == "gemm-c":
        return _fits("gemm", inputs[:2], output)
    if rule == "gemv":
        return len(first) == 2 and second == first[1:] and result == first[:1]
    if len(first) != len(second) or len(first) < 2:
        return False
    if rule == "gemm":
        return first[-1] == second[-2] and result == (*first[:-1], second[-1])
    return first[-1] == second[-1] and result == (*first[:-1], second[-2])


def _fill_expression(rule: Operation, numbers: Sequence[Parameter], output: Parameter) -> str:
    floats = [each for each in numbers if each.value and "eps" not in each.name.lower()]
    value = next((to_python_number(each.value) for each in floats), "1.0")
    eps = next((to_python_number(p.value) for p in numbers if "eps" in p.name.lower()), _EPSILON)
    named = {each.name.lower(): to_python_number(each.value) for each in numbers}
    text = rule.expression
    if (output.dtype or "").startswith(_INTEGERS):
        text = re.sub(
            r"\{0\} @ (\{1\}(?:\.t\(\))?)", r"({0}.double() @ \1.double()).to({0}.dtype)", text
        )
    text = text.replace("{alpha}", named.get("alpha", "1.0"))
    text = text.replace("{beta}", named.get("beta", "0.0"))
    text = text.replace("{number}", value).replace("{eps}", eps or _EPSILON)
    return f"({text}).reshape(1)" if rule.shapes == "one" and output.shape == ("1",) else text


def to_python_number(text: str) -> str:
    """Return a C literal as Python writes it; the text itself where it is none."""
    match = re.fullmatch(r"(-?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)[fFuUlL]*", text)
    return match[1] if match else {"true": "True", "false": "False"}.get(text, text)
