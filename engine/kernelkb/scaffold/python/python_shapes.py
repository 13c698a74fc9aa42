"""Names of the dimensions of a Python function's tensors."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from kernelkb.scaffold.draft.default_values import guess_shape

_DIMENSION = re.compile(
    r"(\w+)\.(?:shape\[(-?\d+)\]|size\((-?\d+)\)|stride(?:\(\)\[|\()(-?\d+)[\])])"
)
"""Each of them says that there is such a dimension."""


def read_shapes(function: ast.FunctionDef) -> dict[str, tuple[str, ...]]:
    """Name the dimensions of tensors by ``M, N = x.shape``, ``x.shape[0]`` and ``x.size(1)``.

    A stride says that a dimension exists.
    """
    shapes: dict[str, tuple[str, ...]] = {}
    single: dict[str, dict[int, str]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            _read_assignment(node.targets[0], node.value, shapes, single)
    for node in ast.walk(function):
        match = (
            _DIMENSION.fullmatch(ast.unparse(node))
            if (isinstance(node, ast.Subscript | ast.Call))
            else None
        )
        if match:
            index = int(match[2] or match[3] or match[4])
            single.setdefault(match[1], {}).setdefault(index, "")
    for name, dims in single.items():
        shapes.setdefault(name, _complete_shape(dims))
    return _unify(function, shapes)


def _unify(
    function: ast.FunctionDef, shapes: dict[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """Give dimensions that an assertion compares one name; a lone weight has the last axis."""
    renamed: dict[str, str] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq | ast.NotEq):
            one = _find_dimension(node.left, shapes)
            other = _find_dimension(node.comparators[0], shapes)
            if one and other and one != other:
                renamed[other] = one
    main = max(shapes.values(), key=len, default=())
    for name, shape in shapes.items():
        if shape == ("d0",) and guess_shape(name, main) == main[-1:] and len(main) > 1:
            shapes[name] = main[-1:]
    return {name: tuple(renamed.get(d, d) for d in shape) for name, shape in shapes.items()}


def _find_dimension(node: ast.expr, shapes: Mapping[str, tuple[str, ...]]) -> str | None:
    match = re.fullmatch(r"(\w+)\.(?:shape\[(-?\d+)\]|size\((-?\d+)\))", ast.unparse(node))
    shape = shapes.get(match[1], ()) if match else ()
    index = int(match[2] or match[3]) if match else 0
    return shape[index] if shape and -len(shape) <= index < len(shape) else None


def _read_assignment(
    target: ast.expr,
    value: ast.expr,
    shapes: dict[str, tuple[str, ...]],
    single: dict[str, dict[int, str]],
) -> None:
    pairs = [(target, value)]
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        pairs = list(zip(target.elts, value.elts, strict=False))
    for each, source in pairs:
        whole = re.fullmatch(r"(\w+)\.(?:shape|size\(\))", ast.unparse(source))
        part = re.fullmatch(r"(\w+)\.(?:shape\[(-?\d+)\]|size\((-?\d+)\))", ast.unparse(source))
        strides = re.fullmatch(r"(\w+)\.stride\(\)", ast.unparse(source))
        if strides and isinstance(each, ast.Tuple):
            single.setdefault(strides[1], {}).setdefault(len(each.elts) - 1, "")
        elif whole and isinstance(each, ast.Tuple):
            shapes[whole[1]] = tuple(
                e.id if isinstance(e, ast.Name) and e.id != "_" else f"d{i}"
                for i, e in enumerate(each.elts)
            )
        elif part and isinstance(each, ast.Name):
            single.setdefault(part[1], {})[int(part[2] or part[3])] = each.id


def _complete_shape(known: Mapping[int, str]) -> tuple[str, ...]:
    least = max((index for index in known if index >= 0), default=-1) + 1
    rank = max(least, max((-index for index in known), default=0), 2 if least == 0 else 1)
    names = ["" for _ in range(rank)]
    for index, name in known.items():
        names[index] = name or names[index]
    return tuple(name or f"d{index}" for index, name in enumerate(names))
