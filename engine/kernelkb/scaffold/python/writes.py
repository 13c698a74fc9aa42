"""What a launcher itself writes into its arguments, and kernels that choose what they write."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from kernelkb.scaffold.python.accesses import find_first
from kernelkb.scaffold.python.launches import (
    STORES,
    Kernels,
    bind,
    is_accessed,
    iter_passed,
    list_aliases,
)

_MAX_DEPTH = 2
_IN_PLACE = re.compile(r"[a-z]\w*[a-z0-9]_")
_KEPT = ("requires_grad_", "detach_", "set_", "rename_", "share_memory_")
"""Methods in place that leave the elements of a tensor as they are."""
_SETS = ("zero_", "fill_", "copy_")
"""Methods that write all elements and read none."""
_VIEWS = (
    *("view", "view_as", "reshape", "contiguous", "detach", "transpose", "permute", "t"),
    *("unsqueeze", "squeeze", "flatten", "narrow", "select", "expand"),
)
_ABOUT = re.compile(r"shape|stride|size|dtype|device|is_\w+|numel|n?dim|data_ptr|T|\w+_")
"""Attributes that read no element of a tensor."""


def list_changed(function: ast.FunctionDef, kernels: Kernels, depth: int = 0) -> dict[str, bool]:
    """Map each name that a launcher writes into itself to whether it reads that, too.

    It writes by a method, as ``x.copy_(y)``, by ``x[0] = y``, ``x += y`` and ``out=x``; or a
    function of the file does that it calls. A name that stands for a copy is left out.

    Args:
        function: The launcher.
        kernels: Of its file.
        depth: Of calls that have been followed.
    """
    aliases, found = list_aliases(function, may_copy=False), dict[str, bool]()
    new = {
        node.targets[0].id
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and not (is_view(node.value) and find_first(node.value) == node.targets[0].id)
    }
    zeroed = set[str]()
    for node in ast.walk(function):
        for target, is_read in [*_iter_written(node), *_iter_helped(node, kernels, depth)]:
            name = find_first(target) if is_view(target) else ""
            name = aliases.get(name, "" if name in new else name)
            found |= {name: is_read or found.get(name, False)} if name else {}
            if isinstance(node, ast.Call) and re.search(r"\.(?:zero|fill)_$", _name(node)):
                zeroed.add(name)
    return {
        n: (is_read or _is_used(function, n)) and n not in zeroed for n, is_read in found.items()
    }


def _name(call: ast.Call) -> str:
    return ast.unparse(call.func)


def _iter_written(node: ast.AST) -> Iterator[tuple[ast.expr, bool]]:
    """Yield what a statement or call writes into, and whether elements stay or are read."""
    if isinstance(node, ast.AugAssign):
        yield node.target, True
    elif isinstance(node, ast.Assign):
        yield from ((each, True) for each in node.targets if isinstance(each, ast.Subscript))
    elif isinstance(node, ast.Call):
        yield from ((k.value, False) for k in node.keywords if k.arg == "out")
        called = node.func
        if isinstance(called, ast.Attribute) and _IN_PLACE.fullmatch(called.attr):
            is_part = any(isinstance(n, ast.Subscript) for n in ast.walk(called.value))
            if called.attr not in _KEPT:
                yield called.value, is_part or called.attr not in _SETS


def _iter_helped(node: ast.AST, kernels: Kernels, depth: int) -> Iterator[tuple[ast.expr, bool]]:
    """Yield what a function of the file that is called writes into, of what it is given."""
    called = node.func if isinstance(node, ast.Call) else None
    helper = kernels.functions.get(called.id) if isinstance(called, ast.Name) else None
    if helper is not None and isinstance(node, ast.Call) and depth < _MAX_DEPTH:
        own = list_changed(helper, kernels, depth + 1)
        yield from ((value, own[name]) for name, value in bind(helper, node) if name in own)


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


def _is_used(function: ast.FunctionDef, name: str) -> bool:
    """Whether a function does more with a tensor than to write into it, or ask for its sizes."""
    apart = set[ast.AST]()
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and _ABOUT.fullmatch(node.attr):
            apart.add(node.value)
        elif isinstance(node, ast.Call):
            apart |= {k.value for k in node.keywords if k.arg == "out"}
            apart |= {*node.args[:1]} if _name(node).endswith("_like") else set()
    return any(
        isinstance(n, ast.Name) and n.id == name and n not in apart for n in ast.walk(function)
    )


def list_chosen(function: ast.FunctionDef, kernels: Kernels) -> set[str]:
    """List the names passed to kernels that write into one of two, by a flag that is not known."""
    found = set[str]()
    for kernel, passed in iter_passed(function, kernels):
        for pair in _iter_pairs(kernel):
            names = {find_first(each) for each in pair} & passed.keys()
            if len(names) == 2 and any(is_accessed(kernel, name, STORES) for name in names):
                found |= {passed[name] for name in names}
    return found


def _iter_pairs(kernel: ast.FunctionDef) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield the two values that a name of a kernel has by a condition."""
    for node in ast.walk(kernel):
        if isinstance(node, ast.IfExp):
            yield node.body, node.orelse
        elif isinstance(node, ast.If):
            one, other = (
                {ast.unparse(n.targets[0]): n.value for n in body if isinstance(n, ast.Assign)}
                for body in (node.body, node.orelse)
            )
            yield from ((one[name], other[name]) for name in one.keys() & other.keys())
