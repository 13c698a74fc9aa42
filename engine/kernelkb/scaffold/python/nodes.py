"""Short forms for the syntax trees of Python functions: what they assign, pass and name."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator, Mapping, Sequence


def iter_assigned(tree: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield each target of an assignment in a tree with its value; ``m, n = a, b`` are two."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            target, value = node.targets[0], node.value
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                yield from zip(target.elts, value.elts, strict=False)
            else:
                yield target, value


def iter_named(tree: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield each name that a tree assigns to with its value."""
    for target, value in iter_assigned(tree):
        if isinstance(target, ast.Name):
            yield target.id, value


def map_first(tree: ast.AST) -> dict[str, ast.expr]:
    """Map each name that a tree assigns to to its first value."""
    found: dict[str, ast.expr] = {}
    for name, value in iter_named(tree):
        found.setdefault(name, value)
    return found


def list_words(node: ast.AST) -> set[str]:
    """List the names, attributes and numbers in an expression."""
    return {*re.findall(r"\w+", ast.unparse(node))}


def match_arguments(names: Sequence[str], call: ast.Call) -> dict[str, ast.expr]:
    """Map parameters to what a call passes for them; those of a ``**`` are left out.

    Args:
        names: Of the parameters, in their order.
        call: Without ``*`` among its arguments.
    """
    named = {k.arg: k.value for k in call.keywords if k.arg is not None}
    return dict(zip(names, call.args, strict=False)) | named


def iter_accesses(kernel: ast.AST, calls: Sequence[str]) -> Iterator[ast.Call]:
    """Yield the calls of some functions, as ``tl.load``, that have an argument."""
    for node in ast.walk(kernel):
        if isinstance(node, ast.Call) and node.args and ast.unparse(node.func) in calls:
            yield node


def iter_checks(function: ast.FunctionDef) -> Iterator[tuple[ast.expr, bool]]:
    """Yield what a function asserts, and what it refuses: the latter with True."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assert):
            yield node.test, False
        elif isinstance(node, ast.If) and any(isinstance(n, ast.Raise) for n in node.body):
            yield node.test, True


def find_mask(call: ast.Call) -> ast.expr | None:
    """Return what a load or store is given as ``mask=``."""
    return next((k.value for k in call.keywords if k.arg == "mask"), None)


def write_plainly(tree: ast.Module) -> ast.Module:
    """Return a tree with ``int(x.shape[0])`` as ``x.shape[0]``, which is an integer.

    Checks of several arrays stand one by one: ``for t in (x, y): assert t.ndim == 2``.
    """
    plain: ast.Module = _Plain().visit(tree)
    return plain


class _Plain(ast.NodeTransformer):
    def visit_For(self, node: ast.For) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        is_check = all(isinstance(each, ast.Assert | ast.If) for each in node.body)
        rows = _list_rows(node.target, node.iter) if is_check else []
        return [_Put(row).visit(copy.deepcopy(e)) for row in rows for e in node.body] or node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        every = node.args[0] if ast.unparse(node.func) == "all" and len(node.args) == 1 else None
        if isinstance(every, ast.GeneratorExp | ast.ListComp) and len(every.generators) == 1:
            only = every.generators[0]
            rows = [] if only.ifs else _list_rows(only.target, only.iter)
            parts = [_Put(row).visit(copy.deepcopy(every.elt)) for row in rows]
            return ast.copy_location(ast.BoolOp(ast.And(), parts), node) if parts[1:] else node
        is_cast = isinstance(node.func, ast.Name) and node.func.id == "int" and len(node.args) == 1
        return node.args[0] if is_cast and _SIZE.fullmatch(ast.unparse(node.args[0])) else node


class _Put(ast.NodeTransformer):
    def __init__(self, values: Mapping[str, ast.expr]) -> None:
        self._values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._values.get(node.id, node)


def _list_rows(target: ast.expr, over: ast.expr) -> list[dict[str, ast.expr]]:
    """List the values of the names that a loop over a written tuple or list sets."""
    names = [*map(ast.unparse, target.elts if isinstance(target, ast.Tuple) else [target])]
    written = over.elts if isinstance(over, ast.Tuple | ast.List) else []
    rows = [getattr(e, "elts", []) if isinstance(target, ast.Tuple) else [e] for e in written]
    is_whole = all(len(row) == len(names) for row in rows)
    return [dict(zip(names, row, strict=True)) for row in rows] if is_whole else []


_SIZE = re.compile(r"\w+\.(?:shape\[-?\d+\]|size\(-?\d+\)|numel\(\)|n?dim(?:\(\))?)")


def walk_own(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """Yield the nodes of a function without those of functions inside of it, as of its grid."""
    pending: list[ast.AST] = [*function.body]
    while pending:
        node = pending.pop(0)
        yield node
        if not isinstance(node, ast.FunctionDef | ast.Lambda):
            pending += ast.iter_child_nodes(node)


LANGUAGE = ("tl", "triton", "language", "gl", "tle")
"""Names of modules with the functions of kernels."""


def find_first(node: ast.expr) -> str:
    """Return the name that a place begins with, as x of ``x + row * stride``; else nothing."""
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.BinOp):
            node = node.left
        elif isinstance(node, ast.Attribute | ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Call):
            base = next((k.value for k in node.keywords if k.arg == "base"), None)
            inner = getattr(node.func, "value", None)
            is_method = isinstance(inner, ast.expr) and ast.unparse(inner) not in LANGUAGE
            first = inner if is_method else node.args[0] if node.args else None
            if (base or first) is None:
                return ""
            node = base or first  # type: ignore[assignment]
        else:
            return ""
    return node.id


_VIEWS = (
    *("view", "view_as", "reshape", "contiguous", "detach", "transpose", "permute", "t"),
    *("unsqueeze", "squeeze", "flatten", "narrow", "select", "expand", "data_ptr"),
)


def is_view(node: ast.expr, copies: Sequence[str] = ()) -> bool:
    """Return whether an expression is a name or a view of it.

    Args:
        node: The expression.
        copies: Methods that count too, though what they return may be a copy.
    """
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr not in (*_VIEWS, *copies):
                return False
            node = node.func.value
        elif isinstance(node, ast.Subscript | ast.Attribute):
            if getattr(node, "attr", "T") not in ("T", "mT", "data"):
                return False
            node = node.value
        else:
            return False
    return True
