"""Loads and stores of Triton kernels in one form: of descriptors, and of functions they call."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Mapping

from kernelkb.scaffold.python.launches import ACCESSES, HELPER
from kernelkb.scaffold.python.nodes import (
    LANGUAGE,
    find_first,
    iter_accesses,
    map_first,
    match_arguments,
)

_MAX_DEPTH = 3


_FUNCTION = re.compile(
    r"tl\.(?:_experimental_)?(?:descriptor_)?(load|store)(?:_tensor_descriptor)?"
)
_METHOD = re.compile(r"(\w+)\.(load|gather|store|scatter|atomic_\w+)")
_SAME = {"gather": "load", "scatter": "store"}
"""Of a tensor descriptor, and the function of ``tl`` that does the same."""


def unify_accesses(
    nodes: Mapping[str, ast.FunctionDef | None],
) -> dict[str, ast.FunctionDef | None]:
    """Return kernels in which ``d.load([i])`` of a descriptor is ``tl.load(d, [i])``.

    What a function that a kernel calls loads or stores stands at its end, as ``kb.load(x)``.

    Args:
        nodes: The kernels, and the functions of Triton that they call, by name.
    """
    found = {n: _Unify().visit(copy.deepcopy(node)) if node else None for n, node in nodes.items()}
    defined = {name: node for name, node in found.items() if node is not None}
    for _ in range(_MAX_DEPTH):
        accesses = {name: list_led(node) for name, node in defined.items()}
        for name, node in defined.items():
            for call in [n for n in ast.walk(node) if isinstance(n, ast.Call)]:
                called = ast.unparse(call.func)
                if called in defined and called != name:
                    texts = _list_passed(defined[called], call, accesses[called])
                    texts -= {ast.unparse(each) for each in node.body}
                    node.body += [ast.parse(text).body[0] for text in sorted(texts)]
    return found


class _Unify(ast.NodeTransformer):
    """Writes each access of a tensor descriptor as one of a pointer."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        called = ast.unparse(node.func)
        function, method = _FUNCTION.fullmatch(called), _METHOD.fullmatch(called)
        kind = function[1] if function else ""
        if method and method[1] not in LANGUAGE:
            kind = _SAME.get(method[2], method[2])
            node.args.insert(0, ast.Name(method[1], ast.Load()))
        node.func = ast.parse(f"tl.{kind}", mode="eval").body if kind else node.func
        return node


def _list_passed(
    helper: ast.FunctionDef, call: ast.Call, accesses: set[tuple[str, str]]
) -> set[str]:
    """List a function's accesses of its parameters as those of what a call passes for them."""
    passed = match_arguments([a.arg for a in helper.args.args], call)
    return {f"{kind}({ast.unparse(passed[name])})" for name, kind in accesses if name in passed}


def list_led(kernel: ast.FunctionDef) -> set[tuple[str, str]]:
    """List the parameters that the places of a function begin with, and what it does there."""
    values = map_first(kernel)
    own, found = {a.arg for a in kernel.args.args}, set[tuple[str, str]]()
    helped = [each.replace("tl.", HELPER) for each in ACCESSES]
    for call in iter_accesses(kernel, [*ACCESSES, *helped]):
        name, left = find_first(call.args[0]), _MAX_DEPTH * 2
        while name not in own and name in values and left:
            name, left = find_first(values[name]), left - 1
        if name in own:
            found.add((name, ast.unparse(call.func).replace("tl.", HELPER)))
    return found
