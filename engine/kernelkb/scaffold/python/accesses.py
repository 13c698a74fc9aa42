"""Loads and stores of the functions that a Triton kernel calls, as if they stood in it."""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping

from kernelkb.scaffold.python.launches import ACCESSES, HELPER
from kernelkb.scaffold.python.nodes import find_first, iter_accesses, map_first, match_arguments

_MAX_DEPTH = 3


def inline_accesses(
    nodes: Mapping[str, ast.FunctionDef | None],
) -> dict[str, ast.FunctionDef | None]:
    """Return kernels with what functions that they call load or store at their end.

    It stands there as ``kb.load(x)`` or ``kb.store(x)``.

    Args:
        nodes: The kernels, and the functions of Triton that they call, by name.
    """
    found = {name: copy.deepcopy(node) for name, node in nodes.items()}
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
