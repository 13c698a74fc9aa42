"""Translates an elementwise Triton kernel and its wrapper to a torch expression."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from kernelkb.scaffold.draft.call_signature import Function

_UNARY = {
    **{
        f"tl.{name}": f"torch.{name}"
        for name in ("exp", "log", "sqrt", "rsqrt", "abs", "sin", "cos")
    },
    **{
        f"tl.math.{name}": f"torch.{name}"
        for name in ("exp", "log", "sqrt", "rsqrt", "tanh", "erf")
    },
    "tl.sigmoid": "torch.sigmoid",
    "tl.erf": "torch.erf",
}
_BINARY = {"tl.maximum": "maximum", "tl.minimum": "minimum"}
_OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}


class _NotElementwise(Exception):
    """The kernel does more than one operation on each element."""


def translate_triton(text: str, function: Function, fields: Mapping[str, str]) -> str | None:
    """Return the torch expression of a function's only output; None for another kind of kernel.

    Args:
        text: The file.
        function: The wrapper; it launches one kernel and makes one tensor.
        fields: Python name of each array.
    """
    tree = ast.parse(text)
    defined = {n.name: n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
    wrapper = defined.get(function.name)
    kernel = defined.get(function.launches[0]) if len(function.launches) == 1 else None
    if wrapper is None or kernel is None or _has_loop(kernel):
        return None
    call = next(
        (
            n
            for n in ast.walk(wrapper)
            if isinstance(n, ast.Call) and isinstance(n.func, ast.Subscript)
        ),
        None,
    )
    stores = [
        n for n in ast.walk(kernel) if isinstance(n, ast.Call) and _name(n.func) == "tl.store"
    ]
    if call is None or len(stores) != 1 or len(stores[0].args) < 2:
        return None
    passed = {a.arg: ast.unparse(v) for a, v in zip(kernel.args.args, call.args, strict=False)}
    arrays = {name: fields[text] for name, text in passed.items() if text in fields}
    try:
        return _translate(stores[0].args[1], arrays, _collect_values(kernel), 0)
    except _NotElementwise:
        return None


def _has_loop(kernel: ast.FunctionDef) -> bool:
    return any(isinstance(n, ast.For | ast.While | ast.If) for n in ast.walk(kernel))


def _name(node: ast.expr) -> str:
    return ast.unparse(node)


def _collect_values(kernel: ast.FunctionDef) -> dict[str, ast.expr]:
    """Map each variable that is assigned once to its value."""
    values: dict[str, ast.expr] = {}
    repeated = set()
    for node in ast.walk(kernel):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            repeated |= {name} & values.keys()
            values[name] = node.value
    return {name: value for name, value in values.items() if name not in repeated}


def _translate(
    node: ast.expr, arrays: Mapping[str, str], values: Mapping[str, ast.expr], depth: int
) -> str:
    if depth > 20:
        raise _NotElementwise
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return repr(node.value)
    if isinstance(node, ast.Name) and node.id in values:
        return _translate(values[node.id], arrays, values, depth + 1)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return f"-{_translate(node.operand, arrays, values, depth + 1)}"
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left = _translate(node.left, arrays, values, depth + 1)
        right = _translate(node.right, arrays, values, depth + 1)
        return f"({left} {_OPERATORS[type(node.op)]} {right})"
    if isinstance(node, ast.Call):
        return _translate_call(node, arrays, values, depth)
    raise _NotElementwise


def _translate_call(
    node: ast.Call, arrays: Mapping[str, str], values: Mapping[str, ast.expr], depth: int
) -> str:
    name = _name(node.func)
    if name == "tl.load" and node.args:
        words = re.findall(r"\w+", ast.unparse(node.args[0]))
        for word in [w for w in words if w in values]:
            words += re.findall(r"\w+", ast.unparse(values[word]))
        bases = list(dict.fromkeys(word for word in words if word in arrays))
        if len(bases) == 1:
            return arrays[bases[0]]
        raise _NotElementwise
    if name.endswith(".to") and isinstance(node.func, ast.Attribute):
        return _translate(node.func.value, arrays, values, depth + 1)
    arguments = [_translate(a, arrays, values, depth + 1) for a in node.args]
    if name in _UNARY and len(arguments) == 1:
        return f"{_UNARY[name]}({arguments[0]})"
    if name in _BINARY and len(arguments) == 2:
        literal = next((a for a in arguments if re.fullmatch(r"-?[\d.e-]+", a)), None)
        if literal is not None:
            limit = "min" if _BINARY[name] == "maximum" else "max"
            return f"{arguments[1 - arguments.index(literal)]}.clamp({limit}={literal})"
        return f"torch.{_BINARY[name]}({', '.join(arguments)})"
    raise _NotElementwise
