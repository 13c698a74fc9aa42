"""Shapes of a launcher's tensors, as its text names their dimensions."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from itertools import pairwise

from kernelkb.scaffold.python.branches import list_stored
from kernelkb.scaffold.python.nodes import iter_checks, iter_named


def read_shapes(function: ast.FunctionDef) -> dict[str, tuple[str, ...]]:
    """Name the dimensions of tensors by ``M, N = x.shape``, or by ``x.shape[0]`` with a known rank.

    A tensor of which the text does not tell all dimensions has none, nor one that was given another
    shape before.
    """
    shapes: dict[str, tuple[str, ...]] = {}
    single: dict[str, dict[int, str]] = {}
    text = ast.unparse(function)
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            _read_assignment(node.targets[0], node.value, shapes, single)
    ranks = {m[1]: int(m[2]) for m in _RANK.finditer(text)}
    for name, dims in single.items():
        rank = ranks.get(name, 0)
        named = tuple(dims.get(at) or dims.get(at - rank, "") for at in range(rank))
        if named and all(named):
            shapes.setdefault(name, named)
    known = {dim for dims in (*shapes.values(), *map(dict.values, single.values())) for dim in dims}
    for match in _SHAPE_IS.finditer(text):
        stated = tuple(re.findall(r"\w+", match[2]))
        if all(dim in known or dim.isdecimal() for dim in stated):
            shapes[match[1]] = stated
    shapes = {name: dims for name, dims in shapes.items() if all(dims)}
    for sides in [*_iter_equal(function)] * 2:
        pair = [_WHOLE.fullmatch(ast.unparse(side)) for side in sides]
        names = [each[1] for each in pair if each]
        for one, other in (names, names[::-1]) if len(names) == len(pair) else ():
            if one in shapes:
                shapes.setdefault(other, shapes[one])
    changed = {m[1] for m in _RESHAPED.finditer(text) if m[1] == m[2]}
    viewed = [m[1] for m in _VIEWED.finditer(text)]  # of a second one, rows may mean something else
    changed |= {name for name in viewed[1:] if shapes.get(name) != shapes.get(viewed[0])}
    return _unify(function, {name: dims for name, dims in shapes.items() if name not in changed})


_SHAPE_IS = re.compile(
    r"assert(?![^\n]*\.(?:shape|size\(\)) ==[^\n]* or )[^\n]*?"
    r"\b(\w+)\.(?:shape|size\(\)) == \(([\w, ]+)\)"
)
_VIEWED = re.compile(r"(?:^|\n)\s*(\w+) = \1\.(?:view|reshape)\(-1, [\w.\[\]-]+\)")
_RANK = re.compile(r"assert[^\n]*?\b(\w+)\.(?:ndim|dim\(\)) == (\d+)")
_WHOLE = re.compile(r"(\w+)\.(?:shape|size\(\))")
_RESHAPED = re.compile(
    r"(?:^|\n)\s*(\w+) = (?:rearrange\()?(\w+)\b"
    r"(?!\.(?:view|reshape)\(-1, [\w.\[\]-]+\)\s*(?:\n|$))"
    r"[^\n]*?(?:\.(?:view|reshape|permute|transpose|unsqueeze|flatten|squeeze|mT|T)\b|->)"
)


def _unify(
    function: ast.FunctionDef, shapes: dict[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """Give dimensions that an assertion compares one name."""
    renamed, known = dict[str, str](), {dim for shape in shapes.values() for dim in shape}
    for sides in _iter_equal(function):
        one, other = (find_dimension(n, shapes) or ast.unparse(n) for n in sides)
        if {one, other} <= known and one != other:
            renamed[other] = one
    return {name: tuple(renamed.get(d, d) for d in shape) for name, shape in shapes.items()}


def _iter_equal(function: ast.FunctionDef) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield each two expressions that a function checks to be equal."""
    for check, is_refused in iter_checks(function):
        same, other_way = (ast.NotEq, ast.And) if is_refused else (ast.Eq, ast.Or)
        nodes = [*ast.walk(check)]
        if any(isinstance(n, ast.BoolOp) and isinstance(n.op, other_way) for n in nodes):
            continue
        for test in (n for n in nodes if isinstance(n, ast.Compare)):
            if all(isinstance(each, same) for each in test.ops[: 1 if is_refused else None]):
                yield from pairwise([test.left, *test.comparators[: 1 if is_refused else None]])


def list_parts(
    function: ast.FunctionDef, shapes: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, int]]:
    """Map each name that is a part of an axis to the axis and its parts: ``H = three_H // 3``."""
    axes, stored = {dim for shape in shapes.values() for dim in shape}, list_stored(function)
    found: dict[str, tuple[str, int]] = {}
    for name, value in iter_named(function):
        if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.FloorDiv):
            continue
        axis = find_dimension(value.left, shapes) or ast.unparse(value.left)
        count = getattr(value.right, "value", None)
        if axis in axes and isinstance(count, int) and name not in axes and stored.count(name) == 1:
            found[name] = axis, count
    return found


_DIMENSION = re.compile(r"(\w+)\.(?:shape\[(-?\d+)\]|size\((-?\d+)\))")


def find_dimension(node: ast.expr, shapes: Mapping[str, tuple[str, ...]]) -> str | None:
    """Return how a shape names what an expression reads of it, as ``x.shape[0]``; or None."""
    match = _DIMENSION.fullmatch(ast.unparse(node))
    shape = shapes.get(match[1], ()) if match else ()
    index = int(match[2] or match[3]) if match else 0
    return shape[index] if -len(shape) <= index < len(shape) else None


def _read_assignment(
    target: ast.expr,
    value: ast.expr,
    shapes: dict[str, tuple[str, ...]],
    single: dict[str, dict[int, str]],
) -> None:
    for each, source in _pair_targets(target, value):
        whole = re.fullmatch(r"(\w+)\.(?:shape|size\(\))", ast.unparse(source))
        part = _DIMENSION.fullmatch(ast.unparse(source))
        if whole and isinstance(each, ast.Tuple):
            names = [e.id if isinstance(e, ast.Name) else "" for e in each.elts]
            named = [name if name.strip("_") else "" for name in names]
            if not any(isinstance(e, ast.Starred) for e in each.elts):
                if len(shapes.setdefault(whole[1], tuple(named))) != len(named):
                    shapes[whole[1]] = ("",)  # of several ranks in turn
                single.setdefault(whole[1], {}).update(enumerate(named))
        elif part and isinstance(each, ast.Name):
            single.setdefault(part[1], {})[int(part[2] or part[3])] = each.id


def _pair_targets(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    """Return what is assigned to what: ``B, T, V = *k.shape, v.shape[-1]`` takes two apart."""
    if not isinstance(target, ast.Tuple) or not isinstance(value, ast.Tuple):
        return [(target, value)]
    targets, pairs = [*target.elts], []
    spread = len(targets) - sum(not isinstance(each, ast.Starred) for each in value.elts)
    if sum(isinstance(each, ast.Starred) for each in value.elts) > 1:
        return []
    for each in value.elts:
        count = spread if isinstance(each, ast.Starred) else 1
        taken, targets = targets[:count], targets[count:]
        own = each.value if isinstance(each, ast.Starred) else each
        is_list = isinstance(each, ast.Starred)
        pairs.append((ast.Tuple(taken) if is_list else taken[0], own) if taken else (own, own))
    return pairs
