"""Copies one function out of a file of Python, with what it needs of that file."""

from __future__ import annotations

import ast
import builtins
import json
import re
import symtable
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kernelkb.scaffold.python.source import list_bound_names

_PURE_CALLS = ("torch.", "math.", "np.", "numpy.", "os.path.", "tl.", "triton.")
_QUERY = re.compile(r"(?:\w+\.)*(?:get|is|has|current)_\w+")
"""A function that tells something, as ``driver.active.utils.get_device_properties``."""
_PURE_NAMES = (
    *("abs", "bool", "dict", "float", "frozenset", "int", "len", "list", "max", "min", "range"),
    *("round", "set", "str", "sum", "tuple", "Path", "pathlib.Path"),
)
_PATH_CALL = re.compile(
    r"(?:pathlib\.)?Path\([^()]*\)[.\w]*\.(?:resolve|absolute|joinpath|with_name)"
)
_PROGRAM_STATE = ("sys.argv", "os.environ")
"""What only the running program has."""
_BUILDERS = ("load", "load_inline")
_BUILDER_MODULE = "torch.utils.cpp_extension"
_OWN_FILE = "_own_file_of_the_copy"
_MAX_SHOWN = 60
RUN_IN_FOLDER = '''\
def _run_in_folder(function, *arguments, **options):
    """Call a function in the folder where the program started: its paths begin there."""
    previous = os.getcwd()
    os.chdir(Path(__file__).parent / {folder})
    try:
        return function(*arguments, **options)
    finally:
        os.chdir(previous)
'''
"""Around what builds or loads an extension."""
_DROPPED_DECORATORS = ("compile", "custom_op", "no_grad", "inference_mode", "lru_cache", "cache")
"""Without them a function computes the same, and is one that can be called by itself."""


class NotSliceable(Exception):
    """A function that cannot be copied by itself; the text says why."""


class FileContext(NamedTuple):
    """What is known of a file beside its text."""

    values: Mapping[str, str] = {}
    """The code of each plain global, as the program had it."""
    own_file: str = ""
    """Its path from the copy's folder."""
    folder: str = ""
    """Path from the copy's folder of the one where the program started; empty: not known."""


NO_CONTEXT = FileContext()


def slice_function(
    text: str,
    name: str,
    also: Sequence[str] = (),
    *,
    is_launched: bool = False,
    context: FileContext = NO_CONTEXT,
) -> str:
    """Return Python source with one function or class and what it needs of its file.

    Imports, functions, classes and constants are copied, in the file's order; statements that do
    something else are not, so that importing the copy does not run the program. An extension is
    built or loaded as the file does it.

    Args:
        text: Source of the file.
        name: A function or class at its top level.
        also: Further ones.
        is_launched: Whether it is a Triton kernel whose constants are all given: of its decorators
            only ``triton.jit`` stays, which the others wrap.
        context: Plain values that the file computes are written as the program had them.

    Raises:
        NotSliceable: There is no such function, or it needs what only running the file makes.
    """
    tree = _parse(text)
    definitions = _collect_definitions(tree)
    for at in definitions.get(name, ()) if is_launched else ():
        kernel: Any = tree.body[at]
        kernel.decorator_list = kernel.decorator_list[-1:]  # triton.jit, and no tuner
    if missing := [each for each in (name, *also) if each not in definitions]:
        what = "it" if missing[0] == name else missing[0]
        raise NotSliceable(f"{what} is not defined at the top level of its file")
    collected = _Collector(tree, definitions, context)
    collected.collect((name, *also))
    return _write_copy(tree, collected, definitions, context)


def _parse(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except SyntaxError as error:
        raise NotSliceable(f"its file does not parse: {error.msg}") from error


def _write_copy(
    tree: ast.Module,
    collected: _Collector,
    definitions: Mapping[str, Sequence[int]],
    context: FileContext,
) -> str:
    """Return what was collected of a file as one text, in the file's order."""
    parts = [
        (at, _write(tree.body[at], collected.used_names, collected.builders))
        for at in collected.needed
    ]
    parts += [
        (definitions[known][-1], f"{known} = {context.values[known]}  # as in the run")
        for known in collected.given
    ]
    ordered = [part for _, part in sorted(parts, key=lambda row: row[0]) if part]
    copied = "\n\n".join(ordered).replace(_OWN_FILE, _write_path(context.own_file)) + "\n"
    if "_run_in_folder(" not in copied:
        return copied
    return f"{RUN_IN_FOLDER.replace('{folder}', json.dumps(context.folder))}\n\n{copied}"


def _write_path(path: str) -> str:
    return f"str(Path(__file__).parent / {json.dumps(path)})" if path else "__file__"


class _Collector:
    """Finds what some names need of a file."""

    def __init__(
        self, tree: ast.Module, definitions: Mapping[str, Sequence[int]], context: FileContext
    ) -> None:
        self._tree, self._definitions, self._context = tree, definitions, context
        self.builders = _list_builders(tree) if context.folder else frozenset[str]()
        self.needed, self.used_names = set[int](), set[str]()
        self.given = list[str]()
        """Names whose values the run tells."""

    def collect(self, names: Sequence[str]) -> None:
        """Collect the statements, by their place, and all names that they use.

        Raises:
            NotSliceable: One of them does more than define.
        """
        self._follow(names)
        if any("torch.ops." in ast.unparse(self._tree.body[at]) for at in self.needed):
            for at in self._list_loads():
                self.needed.add(at)
                self._follow([*_list_used_names(self._tree.body[at])])
        if any(
            used not in self._definitions and not hasattr(builtins, used)
            for used in self.used_names
        ):
            self.needed |= {*self._definitions.get("*", ())}  # imports of all that a module has

    def _follow(self, names: Sequence[str]) -> None:
        pending = [*names]
        while pending:
            if (used := pending.pop()) in self.used_names:
                continue
            self.used_names.add(used)
            places = self._definitions.get(used, ())
            try:
                for at in places:
                    _require_harmless(self._tree.body[at], used, self.builders)
            except NotSliceable:
                if used not in self._context.values or not self._is_assigned(places):
                    raise
                self.given.append(used)
                continue
            for at in places:
                self.needed.add(at)
                pending.extend(_list_used_names(self._tree.body[at]))

    def _is_assigned(self, places: Sequence[int]) -> bool:
        """Return whether a name is given its value once and for all, as far as can be seen."""
        return not any(isinstance(self._tree.body[at], ast.AugAssign) for at in places)

    def _list_loads(self) -> list[int]:
        """Return the statements that build or load an extension and bind nothing."""
        return [
            at
            for at, statement in enumerate(self._tree.body)
            if isinstance(statement, ast.Expr)
            and isinstance(statement.value, ast.Call)
            and ast.unparse(statement.value.func) in self.builders
        ]


def _list_builders(tree: ast.Module) -> frozenset[str]:
    """Return how a file calls what builds or loads an extension."""
    found = {"torch.ops.load_library", *(f"{_BUILDER_MODULE}.{name}" for name in _BUILDERS)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == _BUILDER_MODULE:
            found |= {a.asname or a.name for a in node.names if a.name in _BUILDERS}
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            own = [a.asname or a.name for a in node.names if module + a.name == _BUILDER_MODULE]
            found |= {f"{name}.{builder}" for name in own for builder in _BUILDERS}
    return frozenset(found)


def _collect_definitions(tree: ast.Module) -> dict[str, list[int]]:
    """Return the statements at the top level that bind each name, by their place."""
    definitions: dict[str, list[int]] = {}
    for at, statement in enumerate(tree.body):
        has_branches = isinstance(statement, ast.If | ast.Try | ast.With)
        for node in _iter_own_nodes(statement) if has_branches else (statement,):
            for name in list_bound_names(node):
                definitions.setdefault(name, []).append(at)
    return definitions


def _iter_own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and those below it; of functions and classes not what they hold."""
    yield node
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        for child in ast.iter_child_nodes(node):
            yield from _iter_own_nodes(child)


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


def _require_harmless(statement: ast.stmt, name: str, builders: frozenset[str]) -> None:
    """Raise NotSliceable for a statement that does more than define, or build an extension."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import):
        return
    if isinstance(statement, ast.ImportFrom):
        if statement.level:
            raise NotSliceable(f"it uses {name}, which its file imports from its own package")
        return
    computed = next(_iter_computed(statement, builders), "")
    if not computed:
        return
    is_block = isinstance(statement, ast.If | ast.Try | ast.With)
    if is_block and any(
        isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name
        for node in _iter_own_nodes(statement)
    ):
        where = f"line {statement.lineno}"
        raise NotSliceable(f"it needs {name}, which is in a block ({where}) that uses {computed}")
    raise NotSliceable(f"it uses {name}, which its file computes with {computed}")


def _iter_computed(statement: ast.stmt, builders: frozenset[str]) -> Iterator[str]:
    """Yield what a statement uses as it runs, and that only the running program has."""
    if isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test):
        yield f"if {ast.unparse(statement.test)}"
    for node in _iter_run_nodes(statement):
        if isinstance(node, ast.Attribute) and ast.unparse(node) in _PROGRAM_STATE:
            yield ast.unparse(node)
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        is_pure = called.startswith(_PURE_CALLS) or called in _PURE_NAMES or called in builders
        if not is_pure and not _QUERY.fullmatch(called) and not _PATH_CALL.fullmatch(called):
            yield f"{called[:_MAX_SHOWN]}(...)"


def _iter_run_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that are run with a statement: of a function, its decorators and defaults."""
    yield node
    parts: list[ast.AST] = [*ast.iter_child_nodes(node)]
    if isinstance(node, ast.Lambda):
        parts = [node.args]
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        parts = [*node.decorator_list, node.args]
    for part in parts:
        yield from _iter_run_nodes(part)


class _Mover(ast.NodeTransformer):
    """Makes a statement mean the same in the copy's folder."""

    def __init__(self, builders: frozenset[str]) -> None:
        self._builders = builders

    def visit_Call(self, node: ast.Call) -> ast.AST:  # the name that ast calls
        """Run what builds or loads an extension where the program started."""
        self.generic_visit(node)
        if ast.unparse(node.func) in self._builders:
            return ast.Call(ast.Name("_run_in_folder"), [node.func, *node.args], node.keywords)
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:  # as above
        """Write the path of the file itself."""
        return ast.Name(_OWN_FILE) if node.id == "__file__" else node


def _write(statement: ast.stmt, used: set[str], builders: frozenset[str]) -> str:
    if isinstance(statement, ast.Import | ast.ImportFrom):
        aliases = [
            a for a in statement.names if (a.asname or a.name.partition(".")[0]) in (*used, "*")
        ]
        is_future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        if is_future or not aliases:
            return ""
        statement.names = aliases
    if isinstance(statement, ast.FunctionDef):
        statement.decorator_list = [one for one in statement.decorator_list if not _is_dropped(one)]
    return ast.unparse(_Mover(builders).visit(statement))


def _is_dropped(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(called).rpartition(".")[2] in _DROPPED_DECORATORS
