"""Arrays of a launcher whose elements are places in others, as far as its kernels show that."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from kernelkb.scaffold.python.launches import (
    ACCESSES,
    Kernels,
    is_accessed,
    iter_passed,
    list_pointers,
    name_passed,
)
from kernelkb.scaffold.python.nodes import (
    find_first,
    iter_accesses,
    iter_assigned,
    list_words,
)

_MAX_STEPS = 4
"""Of names that are computed from each other."""
_MAX_SHOWN = 80
_CUTS = re.compile(r"tl\.(?:\w*arg\w+|sort|topk|floor|ceil|cdiv_rn|exp\w*|log\w*|sqrt|rand\w*)")
"""Functions whose result is no place though a number goes in, or no number that goes in is one."""
STARTS = re.compile(r"start|begin|offset|indptr|(?:^|_)cu_|cumsum")
LENGTHS = re.compile(r"len(?:s|gths?)?$|end(?:s)?$")
"""Names of arrays that say where parts of another begin, and how long those are or where they end.
"""


class Index(NamedTuple):
    """How the elements of an array are used as integers."""

    line: str
    """Of the kernel, as ``line 3: x += tl.load(at) * D``."""
    is_place: bool
    """They are a part of an address; else they are only compared with places."""


def list_indices(function: ast.FunctionDef, kernels: Kernels) -> dict[str, Index]:
    """Map each argument of a launcher whose elements are integers of places to their use."""
    found: dict[str, Index] = {}
    for kernel, given in iter_passed(function, kernels):
        passed = name_passed(function, given)
        own = {name: list_pointers(kernel, name) for name in passed if name}
        own = {n: each for n, each in own.items() if is_accessed(kernel, n, ACCESSES)}
        every = {name for each in own.values() for name in each}
        for name, pointers in own.items():
            index = _Uses(kernel, pointers, every).find()
            before = found.get(passed[name])
            if index is not None and (before is None or index.is_place):
                found[passed[name]] = index
    return found


class _Uses:
    """What a kernel does with the elements of one array."""

    def __init__(self, kernel: ast.FunctionDef, pointers: set[str], every: set[str]) -> None:
        self._kernel, self._pointers, self._every = kernel, pointers, every
        self._reached, self._direct = set[str](), set[str]()

    def find(self) -> Index | None:
        """Return the first use of an element in an address, else in a comparison with places."""
        for _ in range(_MAX_STEPS):
            for target, value, _ in _iter_set(self._kernel):
                if self._holds(value) and target not in self._every:
                    self._reached.add(target)
                    self._direct |= {target} if self._is_direct(value) else set()
        for node, place in self._iter_places():
            if self._holds(place):
                return Index(_show(node), is_place=True)
        places = _list_counted(self._kernel)
        for node in ast.walk(self._kernel):
            sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
            others = (ast.unparse(side) for side in sides if not self._holds(side))
            words = {w for text in others if "load" not in text for w in re.findall(r"\w+", text)}
            if words & places and any(map(self._holds, sides)):
                return Index(_show(node), is_place=False)
        return None

    def _iter_places(self) -> Iterator[tuple[ast.AST, ast.expr]]:
        """Yield each address of a kernel, also a part of one that is added to a pointer."""
        for target, value, node in _iter_set(self._kernel):
            if target in self._every or _find_moved(value) in self._every:
                yield node, value
        for call in iter_accesses(self._kernel, ACCESSES):
            inside = [each for each in call.args[1:] if isinstance(each, ast.List)]  # a descriptor
            yield from ((call, each) for each in (call.args[0], *inside))

    def _is_direct(self, node: ast.expr) -> bool:
        while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr != "to":
                break
            node = node.func.value
        is_load = isinstance(node, ast.Call) and ast.unparse(node.func) == "tl.load"
        return is_load or (isinstance(node, ast.Name) and node.id in self._direct)

    def _holds(self, node: ast.AST) -> bool:
        """Whether an expression is computed from elements, and is an integer if those are."""
        if isinstance(node, ast.Name):
            return node.id in self._reached
        if isinstance(node, ast.Compare | ast.BoolOp):
            return False
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            return False
        if isinstance(node, ast.IfExp):
            return self._holds(node.body) or self._holds(node.orelse)
        if isinstance(node, ast.Call):
            return self._holds_call(node)
        return any(map(self._holds, ast.iter_child_nodes(node)))

    def _holds_call(self, call: ast.Call) -> bool:
        called = ast.unparse(call.func)
        if called in ACCESSES:
            words = {n.id for n in ast.walk(call.args[0]) if isinstance(n, ast.Name)}
            return called == "tl.load" and bool(words & self._pointers)
        if _CUTS.fullmatch(called):
            return False
        parts = call.args[1:] if called == "tl.where" else [*call.args]
        if isinstance(call.func, ast.Attribute):
            inner = call.func.value
            if call.func.attr == "to" and not self._is_direct(inner):
                return False
            parts = [*parts, inner]
        return any(map(self._holds, parts))


def _iter_set(kernel: ast.FunctionDef) -> Iterator[tuple[str, ast.expr, ast.AST]]:
    """Yield each name that a kernel sets with what it is set to, and the statement."""
    for node in ast.walk(kernel):
        pairs: list[tuple[ast.expr, ast.expr]] = []
        if isinstance(node, ast.Assign):
            pairs = [*iter_assigned(node)]
        elif isinstance(node, ast.AugAssign):
            pairs = [(node.target, node.value)]
        elif isinstance(node, ast.For):
            pairs = [(node.target, node.iter)]
        yield from ((each.id, value, node) for each, value in pairs if isinstance(each, ast.Name))


def _list_counted(kernel: ast.FunctionDef) -> set[str]:
    """List the names of a kernel that are places: computed from ``tl.arange``, and of no array."""
    found = set[str]()
    for _ in range(_MAX_STEPS):
        for target, value, _ in _iter_set(kernel):
            words = list_words(value)
            if "load" not in words and words & {"arange", "program_id", *found}:
                found.add(target)
    return found


def _find_moved(value: ast.expr) -> str:
    """Return the pointer that a sum begins with, or that a block pointer is made of."""
    while isinstance(value, ast.BinOp):
        value = value.left
    is_made = isinstance(value, ast.Call) and _MAKES.search(ast.unparse(value.func))
    return find_first(value) if is_made or isinstance(value, ast.Name) else ""


_MAKES = re.compile(r"\.(?:make_block_ptr|advance|\w*make_tensor_descriptor)$")


def _show(node: ast.AST) -> str:
    return f"line {getattr(node, 'lineno', 0)}: {ast.unparse(node).splitlines()[0][:_MAX_SHOWN]}"
