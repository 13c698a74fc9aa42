"""Launchers whose arrays are not plain arguments or results, and what to draft instead."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator

from kernelkb.scaffold.python.accesses import list_led
from kernelkb.scaffold.python.launches import Kernels, iter_passed
from kernelkb.scaffold.python.nodes import find_first, iter_assigned, iter_named, walk_own

_OF_TENSORS = ("T", "mT", "H", "data", "real", "imag", "shape", "ndim", "dtype", "device")
"""Attributes of a tensor that are the tensor."""


def describe_objects(function: ast.FunctionDef, kernels: Kernels, name: str) -> str:
    """Return why a launcher cannot be drafted by reading it; empty where it can.

    Its kernel reads attributes of an argument, as ``module.weight``, or it returns a dict, a list
    or an object, and outputs of kernel.yaml are arrays.

    Args:
        function: The launcher.
        kernels: Of its file.
        name: What the user knows it by.
    """
    taken = [*dict.fromkeys(_iter_attributes(function, kernels))]
    if taken:
        owner, names = taken[0].partition(".")[0], [each.rpartition(".")[2] for each in taken]
        return (
            f"{name} takes its arrays from an object ({', '.join(taken)}; line {function.lineno}), "
            f"and inputs of kernel.yaml are arrays: record a run with kb init --from "
            f'"python PROGRAM" --op {name}; or write a function that takes '
            f"{', '.join(names)} in place of {owner}, and draft that "
            "one with kb init FILE --kernel NAME"
        )
    values = (n.value for n in walk_own(function) if isinstance(n, ast.Return))
    for value in filter(None, values):
        if kind := _name_kind(function, value):
            return (
                f"{name} returns {kind} (line {value.lineno}: return {ast.unparse(value)}), and "
                "outputs of kernel.yaml are arrays: write a function that returns its arrays as a "
                "tuple, and draft that one with kb init FILE --kernel NAME; or record a run with "
                f'kb init --from "python PROGRAM" --op {name}'
            )
    return ""


def _iter_attributes(function: ast.FunctionDef, kernels: Kernels) -> Iterator[str]:
    """Yield the attributes of arguments that kernels of a launcher load from or store to."""
    arguments = {a.arg for a in (*function.args.args, *function.args.kwonlyargs)}
    named = _list_named(function, arguments)
    for kernel, passed in iter_passed(function, kernels):
        used = {name for name, _ in list_led(kernel)}
        for inner, text in passed.items():
            found = named.get(text) or _find_attribute(text, arguments)
            found = found or named.get(find_first(ast.parse(text, mode="eval").body), "")
            if found and inner in used:
                yield found


_ATTRIBUTE = re.compile(r"(\w+)\.(\w+)\b(?!\()")
"""Of an argument, and no call of a method."""


def _find_attribute(text: str, arguments: Collection[str]) -> str:
    found = _ATTRIBUTE.match(text)
    is_own = found is not None and found[1] in arguments and found[2] not in _OF_TENSORS
    return found[0] if found is not None and is_own else ""


def _list_named(function: ast.FunctionDef, arguments: Collection[str]) -> dict[str, str]:
    """Map each name that is computed from an attribute of an argument to that attribute."""
    found: dict[str, str] = {}
    for target, value in [*iter_assigned(function)] * 2:
        for each in target.elts if isinstance(target, ast.Tuple) else [target]:
            name = ast.unparse(each)
            own = _find_attribute(ast.unparse(value), arguments)
            own = own or found.get(find_first(value), "")
            if own and name not in arguments:
                found.setdefault(name, own)
    return found


def _name_kind(function: ast.FunctionDef, value: ast.expr) -> str:
    """Return what a value is that is no array and no tuple of arrays; else nothing."""
    if isinstance(value, ast.Name):
        values = [each for name, each in iter_named(function) if name == value.id]
        kinds = {"a dict" if isinstance(e, ast.Dict) else _name_literal(e) for e in values}
        return kinds.pop() if len(kinds) == 1 else ""
    return "" if isinstance(value, ast.List) else _name_literal(value)


def _name_literal(value: ast.expr) -> str:
    function = getattr(value, "func", None)
    called = function.id if isinstance(function, ast.Name) else ""
    if isinstance(value, ast.Dict) and all(isinstance(k, ast.Constant) for k in value.keys):
        return ""  # each of its values is an array
    if isinstance(value, ast.Dict | ast.DictComp) or called in ("dict", "defaultdict"):
        return "a dict"
    if isinstance(value, ast.List | ast.ListComp) or called == "list":
        return "a list"
    return f"an object of {called}" if called[:1].isupper() else ""
