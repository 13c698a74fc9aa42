"""Functions without the branches that known values of their arguments rule out."""

from __future__ import annotations

import ast
import copy
import operator
from collections.abc import Callable, Mapping
from typing import Any

ARRAY = ...
"""The value of an argument that is an array, or that is not known and is not None."""


def fold_branches(function: ast.FunctionDef, known: Mapping[str, object]) -> ast.FunctionDef:
    """Return a function without the branches that are not taken where arguments have some values.

    Those that it assigns to have none.
    """
    stored = list_stored(function)
    fixed = {name: value for name, value in known.items() if name not in stored}
    for node in ast.walk(function):
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        if isinstance(target, ast.Name) and stored.count(target.id) == 1:
            value = decide(node.value, fixed)  # type: ignore[attr-defined]
            fixed |= {} if value is None else {target.id: value}
    folded: ast.FunctionDef = _Fold(fixed).visit(copy.deepcopy(function))
    for node in ast.walk(folded):
        for field in ("body", "orelse", "finalbody"):
            _cut_behind_return(getattr(node, field, None))
        if (body := getattr(node, "body", None)) == []:
            body.append(ast.copy_location(ast.Pass(), node))
    return folded


def _cut_behind_return(body: object) -> None:
    """Remove the statements of a block that none reaches."""
    for at, each in enumerate(body if isinstance(body, list) else ()):
        if isinstance(each, ast.Return | ast.Raise) and isinstance(body, list):
            del body[at + 1 :]
            return


class _Fold(ast.NodeTransformer):
    """Puts the branch that is taken in place of a condition on arguments of known values."""

    def __init__(self, known: Mapping[str, object]) -> None:
        self._known = known

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        taken = decide(node.test, self._known)
        return node if taken is None else node.body if taken else node.orelse

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        taken = decide(node.test, self._known)
        return node if taken is None else node.body if taken else node.orelse


def decide(test: ast.expr, known: Mapping[str, object]) -> bool | None:
    """Return whether a condition holds; None where the known values do not tell."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = decide(test.operand, known)
        return None if inner is None else not inner
    if isinstance(test, ast.BoolOp):
        parts, is_or = [decide(each, known) for each in test.values], isinstance(test.op, ast.Or)
        return is_or if is_or in parts else None if None in parts else not is_or
    names = {n.id for n in ast.walk(test) if isinstance(n, ast.Name)}
    is_plain = isinstance(test, ast.Name | ast.Compare) and names and names <= known.keys()
    if not is_plain or any(isinstance(n, ast.Call | ast.Attribute) for n in ast.walk(test)):
        return None
    if isinstance(test, ast.Compare) and ARRAY in [known[name] for name in names]:
        kind = test.ops[0] if ast.unparse(test.comparators[0]) == "None" else None
        return isinstance(kind, ast.IsNot) if isinstance(kind, ast.Is | ast.IsNot) else None
    return _compute(test, known)


def _compute(test: ast.expr, known: Mapping[str, object]) -> bool | None:
    """Return the truth of a name, or of one comparison of names and constants."""
    if isinstance(test, ast.Name):
        return None if known[test.id] is ARRAY else bool(known[test.id])
    if not isinstance(test, ast.Compare) or len(test.ops) > 1:
        return None
    sides = [
        known[each.id] if isinstance(each, ast.Name) else read_literal(each)
        for each in (test.left, test.comparators[0])
    ]
    compare = _COMPARISONS.get(type(test.ops[0]))
    return None if compare is None or ARRAY in sides else bool(compare(*sides))


def read_literal(node: ast.expr) -> object:
    """Return the value of a constant, or of a tuple, list or set of some; ARRAY for another."""
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        return ARRAY


_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], object]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda one, many: one in many,
    ast.NotIn: lambda one, many: one not in many,
}


def list_stored(tree: ast.AST) -> list[str]:
    """List the names that a tree assigns to, each as often as it does."""
    nodes = ast.walk(tree)
    return [n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
