"""Copies one function out of a Python file, with the definitions of the file that it needs."""

from __future__ import annotations

import ast
import symtable
from collections.abc import Iterator, Sequence

_PURE_CALLS = ("torch.", "math.", "np.", "numpy.", "tl.")
_PURE_NAMES = (
    *("abs", "bool", "dict", "float", "frozenset", "int", "len", "list", "max", "min", "range"),
    *("round", "set", "str", "sum", "tuple"),
)
_DROPPED_DECORATORS = ("compile", "custom_op", "no_grad", "inference_mode", "lru_cache", "cache")
"""Without them a function computes the same, and is one that can be called by itself."""


class NotSliceable(Exception):
    """A function that cannot be copied by itself; the text says why."""


def slice_function(
    text: str, name: str, also: Sequence[str] = (), *, is_launched: bool = False
) -> str:
    """Return Python source with one function or class and what it needs of its file.

    Imports, functions, classes and constants are copied, in the file's order; statements that do
    something else are not, so that importing the copy does not run the program.

    Args:
        text: Source of the file.
        name: A function or class at its top level.
        also: Further ones.
        is_launched: Whether it is a Triton kernel whose constants are all given: of its decorators
            only ``triton.jit`` stays, which the others wrap.

    Raises:
        NotSliceable: There is no such function, or it needs what only running the file makes.
    """
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise NotSliceable(f"its file does not parse: {error.msg}") from error
    definitions = _collect_definitions(tree)
    if missing := [each for each in (name, *also) if each not in definitions]:
        what = "it" if missing[0] == name else missing[0]
        raise NotSliceable(f"{what} is not defined at the top level of its file")
    if is_launched:
        _drop_tuners(tree, name)
    needed, used_names = set[int](), set[str]()
    pending = [name, *also]
    while pending:
        if (used := pending.pop()) in used_names:
            continue
        used_names.add(used)
        for at in definitions.get(used, ()):
            needed.add(at)
            _require_harmless(tree.body[at], used)
            pending.extend(_list_used_names(tree.body[at]))
    parts = [_write(tree.body[at], used_names) for at in sorted(needed)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _drop_tuners(tree: ast.Module, name: str) -> None:
    """Take the decorators off a kernel that stand above ``triton.jit``."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            node.decorator_list = node.decorator_list[-1:]


def _collect_definitions(tree: ast.Module) -> dict[str, list[int]]:
    """Return the statements at the top level that bind each name, by their place."""
    definitions: dict[str, list[int]] = {}
    for at, statement in enumerate(tree.body):
        for name in _list_bound_names(statement):
            definitions.setdefault(name, []).append(at)
    return definitions


def _list_bound_names(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        for alias in statement.names:
            yield alias.asname or alias.name.partition(".")[0]
    elif isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            yield from (node.id for node in ast.walk(target) if isinstance(node, ast.Name))
    elif isinstance(statement, ast.If | ast.Try | ast.With):
        for node in ast.walk(statement):
            if node is not statement and isinstance(node, ast.stmt):
                yield from _list_bound_names(node)


def _list_used_names(statement: ast.stmt) -> Iterator[str]:
    """Yield the names of the file that a statement uses: no parameters and local variables."""
    pending = [symtable.symtable(ast.unparse(statement), "statement", "exec")]
    while pending:
        table = pending.pop()
        is_file = table.get_type() == "module"
        for symbol in table.get_symbols():
            if symbol.is_global() or (is_file and symbol.is_referenced()):
                yield symbol.get_name()
        pending += table.get_children()


def _require_harmless(statement: ast.stmt, name: str) -> None:
    """Raise NotSliceable for a statement that does more than define."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import):
        return
    if isinstance(statement, ast.ImportFrom):
        if statement.level:
            raise NotSliceable(f"it uses {name}, which its file imports from its own package")
        return
    for node in ast.walk(statement):
        if isinstance(node, ast.Call) and not _is_pure_call(node):
            raise NotSliceable(f"it uses {name}, which its file computes")


def _is_pure_call(call: ast.Call) -> bool:
    called = ast.unparse(call.func)
    return called.startswith(_PURE_CALLS) or called in _PURE_NAMES


def _write(statement: ast.stmt, used: set[str]) -> str:
    if isinstance(statement, ast.Import | ast.ImportFrom):
        aliases = [a for a in statement.names if (a.asname or a.name.partition(".")[0]) in used]
        is_future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        if is_future or not aliases:
            return ""
        statement.names = aliases
    if isinstance(statement, ast.FunctionDef):
        statement.decorator_list = [one for one in statement.decorator_list if not _is_dropped(one)]
    return ast.unparse(statement)


def _is_dropped(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(called).rpartition(".")[2] in _DROPPED_DECORATORS
