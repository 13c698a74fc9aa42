"""Which arguments a launcher is given: its defaults, and the branches that they rule out."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kernelkb.scaffold.python.branches import (
    ARRAY,
    decide,
    fold_branches,
    list_stored,
    read_literal,
)
from kernelkb.scaffold.python.launches import Kernels
from kernelkb.scaffold.python.nodes import find_first, is_view, iter_named, match_arguments

_MAX_FOLDS = 2
_MAX_CALLERS = 3


class Given(NamedTuple):
    """What a launcher is called with."""

    passed: list[ast.arg]
    """Arguments that a call needs, in its order; those by keyword come last."""
    needed: list[str]
    """Of those with a default the ones that are not left at it."""
    options: list[str]
    """Arguments that a call may leave out."""
    function: ast.FunctionDef
    """The launcher without the branches that its defaults, and what was said, rule out."""


def read_given(
    function: ast.FunctionDef, owner: str, used: set[str], said: Mapping[str, object]
) -> Given:
    """Return what a launcher is called with.

    Args:
        function: The launcher; of an autograd class its ``forward``.
        owner: Its class; empty for a plain function.
        used: The names that kernels load from or store to.
        said: What its user said of arguments, as values; ``ARRAY`` for an array.
    """
    defaults = list_defaults(function)
    known = {n: v for n, value in defaults.items() if (v := read_literal(value)) is not ARRAY}
    decided: dict[str, object] = {n: value for n, value in known.items() if value is not None}
    for _ in range(_MAX_FOLDS):  # of two that are None, one may be needed only beside the other
        folded = fold_branches(function, {**decided, **said})
        passed, needed = _list_required(folded, owner, used - decided.keys(), said)
        decided |= {name: value for name, value in known.items() if name not in needed}
    pairs = zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
    by_name = [a for a, default in pairs if default is None or a.arg in said]
    needed += [a.arg for a in by_name]
    known = {name: value for name, value in known.items() if name not in needed}
    names = {a.arg for a in (*passed, *by_name)}
    options = [name for name in defaults if name not in names]
    return Given([*passed, *by_name], needed, options, fold_branches(function, {**known, **said}))


def read_values(
    function: ast.FunctionDef, given: Given, owner: str, callers: Sequence[ast.FunctionDef]
) -> dict[str, tuple[str, str]]:
    """Map each parameter to its default, or what the file's calls pass, and where that is said."""
    defaults = list_defaults(function).items()
    own = {n: ("" if n in given.needed else ast.unparse(value), "") for n, value in defaults}
    called = f"{owner}.apply" if owner else function.name
    names = [a.arg for a in given.passed]
    return {n: own.get(n) or _find_given(called, names, n, callers) for n in names}


def _find_given(
    called: str, names: Sequence[str], name: str, callers: Sequence[ast.FunctionDef], depth: int = 0
) -> tuple[str, str]:
    """Return what the file's own calls pass for a parameter, and where that is said.

    Nothing where calls differ. How a function calls itself says nothing.

    Args:
        called: What is called, ``run`` or ``Scan.apply``.
        names: Its parameters, in the order of a call.
        name: The one that is asked about.
        callers: The file's functions.
        depth: Of calls that have been followed.
    """
    found: dict[str, str] = {}
    for caller in callers if depth < _MAX_CALLERS else ():
        for call in ast.walk(caller) if caller.name != called else ():
            if isinstance(call, ast.Call) and ast.unparse(call.func) == called:
                value = match_arguments(names, call).get(name)
                found |= dict([_follow(caller, value, callers, depth)] if value else [])
    return next(iter(found.items())) if len(found) == 1 else ("", "")


def _follow(
    caller: ast.FunctionDef, value: ast.expr, callers: Sequence[ast.FunctionDef], depth: int
) -> tuple[str, str]:
    """Return constants, or the default of a caller's parameter, or what its callers pass for it.

    Nothing for an expression, or a name that the caller assigns to: only running it tells.
    """
    if read_literal(value) is not ARRAY:
        return ast.unparse(value), f"line {value.lineno} passes it"
    if not isinstance(value, ast.Name) or value.id in list_stored(caller):
        return "", ""
    own = list_defaults(caller).get(value.id)
    if own is not None:
        return ast.unparse(own), f"the caller's default, line {own.lineno}"
    names = [a.arg for a in (*caller.args.posonlyargs, *caller.args.args)]
    return _find_given(caller.name, names, value.id, callers, depth + 1)


_BOUND = ("forward", "__call__", "ctx", "self", "cls")
"""Methods, and names of the first parameter of others, that are given it by Python."""


def list_defaults(function: ast.FunctionDef) -> dict[str, ast.expr]:
    """Map each parameter that has a default to it."""
    own = function.args
    plain = [*own.posonlyargs, *own.args]
    last = plain[len(plain) - len(own.defaults) :]
    pairs = zip([*last, *own.kwonlyargs], [*own.defaults, *own.kw_defaults], strict=True)
    return {argument.arg: default for argument, default in pairs if default is not None}


def list_words(function: ast.FunctionDef) -> dict[str, str]:
    """Map each argument that is a string to those that the function takes, with | between.

    That is one with such a type or default, or that is compared with a string.
    """
    typed = {a.arg: ast.unparse(a.annotation) for a in _list_arguments(function) if a.annotation}
    found = {name: "" for name, kind in typed.items() if re.match(r"str\b|Optional\[str\]", kind)}
    found |= {n: "" for n, value in list_defaults(function).items() if _is_word(value)}
    names = {a.arg for a in _list_arguments(function)}
    for node in ast.walk(function):
        if not isinstance(node, ast.Compare) or ast.unparse(node.left) not in names:
            continue
        other, name = node.comparators[0], ast.unparse(node.left)
        many = other.elts if isinstance(other, ast.Tuple | ast.List | ast.Set) else [other]
        if many and all(map(_is_word, many)):
            listed = "|".join(ast.literal_eval(each) for each in many)
            found[name] = found.get(name) or (listed if many != [other] else "")
    return found


def list_lists(function: ast.FunctionDef) -> set[str]:
    """List the arguments that are lists of numbers: by their type, default, or how they are used.

    That is ``t, h = sizes`` or ``len(sizes)``, where no element of it is used as an array.
    """
    text, defaults = ast.unparse(function), list_defaults(function)
    found = {n for n, value in defaults.items() if isinstance(value, ast.Tuple | ast.List)}
    for each in _list_arguments(function):
        name, kind = each.arg, ast.unparse(each.annotation) if each.annotation else ""
        taken = re.search(rf"(?m)^ *\(?(\w+(?:, \w+)+)\)? = {name}$", text)
        is_used = taken or re.search(rf"\blen\({name}\)", text)
        names = "|".join([rf"{name}\[[^\]]*\]", *(taken[1].split(", ") if taken else [])])
        is_plain = is_used and not kind and not re.search(rf"\b(?:{names})\.[a-z]", text)
        found |= {name} if _LIST.search(kind) or is_plain else set()
    return found


_LIST = re.compile(r"\b(?:[Ll]ist|[Tt]uple|Sequence|Iterable)(?:\[(?:int|float|bool)\b|$| \|)")


def _list_arguments(function: ast.FunctionDef) -> list[ast.arg]:
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


def _is_word(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _list_required(
    function: ast.FunctionDef, owner: str, used: set[str], said: Mapping[str, object]
) -> tuple[list[ast.arg], list[str]]:
    """Return the parameters up to the last that is needed, and those of them that are None else.

    Those without a default are needed, and those that the function cannot do without. ctx, cls or
    self of a method is left out.

    Args:
        function: The function.
        owner: Its class; empty for a plain function.
        used: The names that kernels load from or store to.
        said: What its user said of arguments.
    """
    arguments = [*function.args.posonlyargs, *function.args.args]
    count = len(arguments) - len(function.args.defaults)
    defaults = list_defaults(function)
    empty = [a.arg for a in arguments[count:] if ast.unparse(defaults[a.arg]) == "None"]
    needed = [name for name in empty if _is_needed(function, name, used)]
    needed += [name for name in defaults if name in said and name not in needed]
    last = max([count, *(at + 1 for at, a in enumerate(arguments) if a.arg in needed)])
    required = arguments[:last]
    is_bound = function.name in _BOUND or (required[:1] and required[0].arg in _BOUND)
    is_of_class = any(ast.unparse(each) == "classmethod" for each in function.decorator_list)
    bound = (2 if is_of_class and function.name == "forward" else 1) if owner and is_bound else 0
    return required[bound:], needed


def drop_guarded(kernels: Kernels, launches: Sequence[str], used: set[str]) -> set[str]:
    """Return the names that kernels use; none where a kernel decides something on the way."""
    nodes = (n for each in map(kernels.nodes.get, launches) if each for n in ast.walk(each))
    return set() if any(isinstance(n, ast.If | ast.IfExp) for n in nodes) else used


def _is_needed(function: ast.FunctionDef, name: str, used: set[str]) -> bool:
    """Whether a function refuses None for an argument, or uses it and never asks for None."""
    nodes = [*ast.walk(function)]
    set_ = [value for target, value in iter_named(function) if target == name]
    is_own = all(is_view(value) and find_first(value) == name for value in set_)
    for node in nodes:
        chosen = node.value if is_own and isinstance(node, ast.Starred) else None
        taken = decide(chosen.test, {name: None}) if isinstance(chosen, ast.IfExp) else None
        if isinstance(chosen, ast.IfExp) and taken is not None:
            side = chosen.body if taken else chosen.orelse
            if isinstance(side, ast.Constant):  # of *0 nothing can be passed
                return True
        if isinstance(node, ast.If) and any(isinstance(n, ast.Raise) for n in node.body):
            parts, others = _split(node.test, ast.Or), _split(node.test, ast.And)
            is_alone = sum(ast.unparse(p).endswith(" is None") for p in others) == 1
            if f"{name} is None" in map(ast.unparse, [*parts, *(others if is_alone else [])]):
                return True
        parts = _split(node.test, ast.And) if isinstance(node, ast.Assert) else []
        if f"{name} is not None" in map(ast.unparse, parts):
            return True
    tests = [n.test for n in nodes if isinstance(n, ast.If | ast.IfExp | ast.Assert | ast.While)]
    asked = [*tests, *(n for n in nodes if isinstance(n, ast.BoolOp | ast.Compare))]
    words = {n.id for each in asked for n in ast.walk(each) if isinstance(n, ast.Name)}
    words |= {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    read = {ast.unparse(n.value) for n in nodes if isinstance(n, ast.Attribute)}
    return name in (read | used) - words


def _split(test: ast.expr, kind: type[ast.boolop]) -> list[ast.expr]:
    """Return the parts that a condition joins with ``or``, or ``and``; else itself."""
    return test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, kind) else [test]
