"""Loads and stores of Triton kernels in one form: of descriptors, and of functions they call."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Mapping

from kernelkb.scaffold.python.launches import HELPER, STORES

_METHODS = {"load": "load", "gather": "load", "store": "store", "scatter": "store"}
_METHODS |= {name: name for name in (f.removeprefix("tl.") for f in STORES) if "atomic" in name}
"""Of a tensor descriptor, and the function of ``tl`` that does the same."""
_LANGUAGE = ("tl", "triton", "language", "gl", "tle")
_FUNCTION = re.compile(
    r"tl\.(?:_experimental_descriptor_|_experimental_)?(load|store)(?:_tensor_descriptor)?"
)
_MAX_DEPTH = 3


def unify_accesses(
    nodes: Mapping[str, ast.FunctionDef | None],
) -> dict[str, ast.FunctionDef | None]:
    """Return kernels in which each access of a descriptor is ``tl.load(d)`` or ``tl.store(d)``.

    What a function that a kernel calls loads or stores stands at the kernel's end, as
    ``kb.load(x)``.

    Args:
        nodes: The kernels, and the functions of Triton that they call, by name.
    """
    found = {n: _Unify().visit(copy.deepcopy(node)) if node else None for n, node in nodes.items()}
    for _ in range(_MAX_DEPTH):
        accesses = {name: list_led(node) for name, node in found.items() if node is not None}
        for name, node in found.items():
            for call in [*ast.walk(node)] if node is not None else ():
                called = ast.unparse(call.func) if isinstance(call, ast.Call) else ""
                helper = found.get(called) if called != name else None
                if helper is None or node is None or not isinstance(call, ast.Call):
                    continue
                passed = dict(zip([a.arg for a in helper.args.args], call.args, strict=False))
                passed |= {k.arg or "": k.value for k in call.keywords}
                own = {
                    f"{kind}({ast.unparse(passed[p])})"
                    for p, kind in accesses[called]
                    if p in passed
                }
                own -= {ast.unparse(each) for each in node.body}
                node.body += [ast.parse(text).body[0] for text in sorted(own)]
    return found


class _Unify(ast.NodeTransformer):
    """Writes each access of a tensor descriptor as one of a pointer."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = _FUNCTION.fullmatch(ast.unparse(node.func))
        called = node.func
        if name and name[0] not in ("tl.load", "tl.store") and node.args:
            return _make_access(name[1], node.args[0], node)
        if not isinstance(called, ast.Attribute) or called.attr not in _METHODS:
            return node
        if isinstance(called.value, ast.Name) and called.value.id not in _LANGUAGE:
            return _make_access(_METHODS[called.attr], called.value, node)
        return node


def _make_access(kind: str, place: ast.expr, node: ast.Call) -> ast.Call:
    """Return an access of a place with all else that the call is given behind it."""
    others = [each for each in (*node.args, *(k.value for k in node.keywords)) if each is not place]
    behind = [ast.keyword("given", ast.Tuple(others, ast.Load()))]
    return ast.copy_location(
        ast.Call(ast.parse(f"tl.{kind}", mode="eval").body, [place], behind), node
    )


def list_led(kernel: ast.FunctionDef) -> set[tuple[str, str]]:
    """List the parameters that the places of a function begin with, and what it does there."""
    values = {
        node.targets[0].id: node.value
        for node in ast.walk(kernel)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    own, found = {a.arg for a in kernel.args.args}, set[tuple[str, str]]()
    for call in ast.walk(kernel):
        kind = ast.unparse(call.func) if isinstance(call, ast.Call) else ""
        if not isinstance(call, ast.Call) or not call.args:
            continue
        kind = kind.replace("tl.", HELPER)
        if kind in (f"{HELPER}load", *(each.replace("tl.", HELPER) for each in STORES)):
            name, left = find_first(call.args[0]), _MAX_DEPTH * 2
            while name not in own and name in values and left:
                name, left = find_first(values[name]), left - 1
            found |= {(name, kind)} & {(each, kind) for each in own}
    return found


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
            is_method = isinstance(inner, ast.expr) and ast.unparse(inner) not in _LANGUAGE
            first = inner if is_method else node.args[0] if node.args else None
            if (base or first) is None:
                return ""
            node = base or first  # type: ignore[assignment]
        else:
            return ""
    return node.id
