"""Translates an elementwise CUDA kernel's body to a torch expression."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from kernelkb.scaffold.c.syntax import get_text, iter_nodes, read_called_name
from kernelkb.scaffold.draft.known_operations import to_python_number

if TYPE_CHECKING:
    from tree_sitter import Node

_UNARY = {
    **dict.fromkeys(("exp", "expf", "__expf"), "torch.exp"),
    **dict.fromkeys(("log", "logf", "__logf"), "torch.log"),
    **dict.fromkeys(("sqrt", "sqrtf", "__fsqrt_rn"), "torch.sqrt"),
    **dict.fromkeys(("rsqrt", "rsqrtf"), "torch.rsqrt"),
    **dict.fromkeys(("tanh", "tanhf"), "torch.tanh"),
    **dict.fromkeys(("sin", "sinf", "__sinf"), "torch.sin"),
    **dict.fromkeys(("cos", "cosf", "__cosf"), "torch.cos"),
    **dict.fromkeys(("abs", "fabs", "fabsf"), "torch.abs"),
    **dict.fromkeys(("erf", "erff"), "torch.erf"),
}
_CASTS = ("float", "double", "T", "scalar_t", "__ldg", "__half2float", "__float2half", "half")
_OPERATORS = ("+", "-", "*", "/", "<", ">", "<=", ">=")
_MAX_DEPTH = 12


class _Body(NamedTuple):
    """What the translation of one kernel needs."""

    arrays: Mapping[str, str]
    """Python name of each array."""
    numbers: Mapping[str, str]
    """Value of each scalar parameter."""
    values: Mapping[str, Node]
    subscript: str
    """The subscript, without blanks; every array must have it."""


class NotElementwise(Exception):
    """The body does more than one operation on each element."""


def translate_elementwise(
    body: Node, output: str, arrays: Mapping[str, str], numbers: Mapping[str, str]
) -> str | None:
    """Return the torch expression of a kernel's only output; None for another kind of kernel.

    Args:
        body: The kernel's body.
        output: Name of the array that it writes.
        arrays: Python name of each array that it reads.
        numbers: Value of each scalar parameter.
    """
    writes = [n for n in iter_nodes(body) if _is_write(n, output)]
    loops = [n for n in iter_nodes(body) if n.type in ("for_statement", "while_statement")]
    if len(writes) != 1 or any(not _is_grid_stride(loop) for loop in loops):
        return None
    left, right = writes[0].child_by_field_name("left"), writes[0].child_by_field_name("right")
    if left is None or right is None or "__shared__" in get_text(body):
        return None
    values = {}
    for node in iter_nodes(body):
        name, value = node.child_by_field_name("declarator"), node.child_by_field_name("value")
        if node.type == "init_declarator" and name is not None and value is not None:
            values[get_text(name)] = value
    facts = _Body(arrays, numbers, values, _read_index(left))
    operator = get_text(writes[0].child_by_field_name("operator")).removesuffix("=")
    try:
        text = _translate(right, facts, 0)
        return f"{_translate(left, facts, 0)} {operator} ({text})" if operator else text
    except NotElementwise:
        return None


def _is_write(node: Node, output: str) -> bool:
    left = node.child_by_field_name("left")
    if node.type != "assignment_expression" or left is None:
        return False
    return left.type == "subscript_expression" and get_text(left).startswith(f"{output}[")


def _is_grid_stride(loop: Node) -> bool:
    return "blockDim" in get_text(loop.child_by_field_name("update")) or "stride" in get_text(
        loop.child_by_field_name("update")
    )


def _read_index(subscript: Node) -> str:
    indices = subscript.child_by_field_name("indices")
    return re.sub(r"\s", "", get_text(indices))


def _translate(node: Node, body: _Body, depth: int) -> str:
    text = get_text(node)
    if depth > _MAX_DEPTH:
        raise NotElementwise
    if node.type in ("parenthesized_expression", "cast_expression"):
        return f"({_translate(node.named_children[-1], body, depth + 1)})"
    if node.type == "number_literal":
        return to_python_number(text)
    if node.type == "identifier":
        if text in body.numbers:
            return to_python_number(body.numbers[text])
        if text in body.values:
            return f"({_translate(body.values[text], body, depth + 1)})"
        raise NotElementwise
    if node.type == "subscript_expression":
        name = get_text(node.child_by_field_name("argument"))
        if name in body.arrays and _read_index(node) == body.subscript:
            return body.arrays[name]
        raise NotElementwise
    return _translate_operation(node, body, depth)


def _translate_operation(node: Node, body: _Body, depth: int) -> str:
    def translate(field: str) -> str:
        child = node.child_by_field_name(field)
        if child is None:
            raise NotElementwise
        return _translate(child, body, depth + 1)

    operator = get_text(node.child_by_field_name("operator"))
    if node.type == "binary_expression" and operator in _OPERATORS:
        return f"{translate('left')} {operator} {translate('right')}"
    if node.type == "unary_expression" and operator == "-":
        return f"-{translate('argument')}"
    if node.type == "call_expression":
        return _translate_call(node, body, depth)
    raise NotElementwise


def _translate_call(node: Node, body: _Body, depth: int) -> str:
    name = read_called_name(node.child_by_field_name("function"))
    listed = node.child_by_field_name("arguments")
    nodes = listed.named_children if listed is not None else []
    arguments = [_translate(child, body, depth + 1) for child in nodes]
    if len(arguments) == 1 and name in _UNARY:
        return f"{_UNARY[name]}({arguments[0]})"
    if len(arguments) == 1 and name in _CASTS:
        return arguments[0]
    if len(arguments) == 2 and name in ("max", "fmaxf", "fmax", "min", "fminf", "fmin"):
        limit = "min" if "max" in name else "max"
        literal = next((a for a in arguments if re.fullmatch(r"\(?-?[\d.e-]+\)?", a)), None)
        if literal is not None:
            other = arguments[1 - arguments.index(literal)]
            return f"({other}).clamp({limit}={literal})"
        return f"torch.{'maximum' if limit == 'min' else 'minimum'}({', '.join(arguments)})"
    if len(arguments) == 3 and name in ("fma", "fmaf"):
        return f"{arguments[0]} * {arguments[1]} + {arguments[2]}"
    raise NotElementwise
