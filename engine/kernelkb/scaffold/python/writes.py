"""What a launcher itself writes into its arguments, and kernels that choose what they write."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from kernelkb.scaffold.python.arguments import Given, list_defaults
from kernelkb.scaffold.python.branches import decide, fold_branches
from kernelkb.scaffold.python.launches import (
    HELPER,
    STORES,
    Kernels,
    bind,
    is_accessed,
    iter_passed,
    list_accessed,
    list_launches,
    name_passed,
)
from kernelkb.scaffold.python.nodes import find_first, is_view, iter_accesses, iter_named

_MAX_DEPTH = 2
_IN_PLACE = re.compile(r"(?!(?:requires_grad|detach|set|rename|share_memory)_$)[a-z]\w*[a-z0-9]_")
"""Methods that change elements of a tensor."""


def list_written(function: ast.FunctionDef, kernels: Kernels, depth: int = 0) -> set[str]:
    """List the names that a launcher writes into itself, or by a function of the file.

    It writes by a method, as ``x.copy_(y)``, by ``x[0] = y``, ``x += y`` and ``out=x``. A name that
    stands for a copy is left out.

    Args:
        function: The launcher.
        kernels: Of its file.
        depth: Of calls that have been followed.
    """
    found = set[str]()
    new = {
        name
        for name, value in iter_named(function)
        if not (is_view(value) and find_first(value) == name)
    }
    for node in ast.walk(function):
        for target in [*_iter_written(node), *_iter_helped(node, kernels, depth)]:
            name = find_first(target) if is_view(target) else ""
            argument = name_passed(function, {name: name}, ())[name] if name else ""
            found |= {argument} if argument != name or name not in new else set()
    return found - {""}


def _iter_written(node: ast.AST) -> Iterator[ast.expr]:
    """Yield what a statement or call writes into."""
    if isinstance(node, ast.AugAssign):
        yield node.target
    elif isinstance(node, ast.Assign):
        yield from (each for each in node.targets if isinstance(each, ast.Subscript))
    elif isinstance(node, ast.Call):
        yield from (k.value for k in node.keywords if k.arg == "out")
        if isinstance(node.func, ast.Attribute) and _IN_PLACE.fullmatch(node.func.attr):
            yield node.func.value


def _iter_helped(node: ast.AST, kernels: Kernels, depth: int) -> Iterator[ast.expr]:
    """Yield what a function of the file that is called writes into, of what it is given."""
    called = node.func if isinstance(node, ast.Call) else None
    helper = kernels.functions.get(called.id) if isinstance(called, ast.Name) else None
    if helper is not None and isinstance(node, ast.Call) and depth < _MAX_DEPTH:
        own = list_written(helper, kernels, depth + 1)
        yield from (value for name, value in bind(helper, node) if name in own)


def is_used(function: ast.FunctionDef, name: str) -> bool:
    """Return whether a function does more with a tensor than to set all of it, or ask its sizes."""
    apart = set[ast.AST]()
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and _ABOUT.fullmatch(node.attr):
            apart.add(node.value)
        elif isinstance(node, ast.Call):
            apart |= {k.value for k in node.keywords if k.arg == "out"}
            apart |= {*node.args[:1]} if ast.unparse(node.func).endswith("_like") else set()
    own = {n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id == name}
    return bool(own - apart)


_ABOUT = re.compile(
    r"(?:copy|zero|fill)_|shape|stride|size|dtype|device|is_\w+|numel|n?dim|data_ptr"
)
"""What sets all elements of a tensor, or reads none."""


def list_unstored(
    function: ast.FunctionDef, given: Given, kernels: Kernels, said: Mapping[str, object]
) -> set[str]:
    """List the optional arrays that kernels store to where they store nothing without any of them.

    Args:
        function: The launcher.
        given: What it is called with.
        kernels: Of its file.
        said: What its user said of arguments, as values.
    """
    launched = [*iter_passed(given.function, kernels)]
    if not launched or not all(map(kernels.nodes.get, list_launches(given.function, kernels))):
        return set()
    left = {n: v for n, v in list_defaults(function).items() if n not in given.needed}
    known: dict[str, object] = {n: v.value for n, v in left.items() if isinstance(v, ast.Constant)}
    optional = {n for n, value in known.items() if value is None} - said.keys()
    known |= said
    for kernel, passed in launched:
        fixed: dict[str, object] = {}
        for inner, text in passed.items():
            taken = decide(ast.parse(text, mode="eval").body, known)
            fixed |= {inner: known[text]} if text in known else {}
            fixed |= {inner: taken} if taken is not None and inner not in fixed else {}
        folded = fold_branches(kernel, fixed)
        if any(iter_accesses(folded, [*STORES, *(each.replace("tl.", HELPER) for each in STORES)])):
            return set()
    return optional & list_accessed(function, kernels, STORES)


def list_chosen(function: ast.FunctionDef, kernels: Kernels) -> set[str]:
    """List the names passed to kernels that write into one of two, by a flag that is not known."""
    found = set[str]()
    for kernel, passed in iter_passed(function, kernels):
        firsts: dict[str, set[str]] = {}
        for name, value in iter_named(kernel):
            parts = [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]
            firsts.setdefault(name, set()).update(map(find_first, parts))
        for each in firsts.values():
            names = each & passed.keys()
            if len(names) > 1 and any(is_accessed(kernel, name, STORES) for name in names):
                found |= {passed[name] for name in names}
    return found
