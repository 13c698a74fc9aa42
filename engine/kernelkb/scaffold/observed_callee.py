"""What an observed call calls: code that is copied out of a file, or loaded from one."""

from __future__ import annotations

import ast
import json
import re
import symtable
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kernelkb.scaffold.observed_shapes import ObservedPlan

Function = Mapping[str, Any]
"""One observed function, as the observer writes it."""
_NO_TORCH = "it is compiled code, so that its recorded outputs are the reference"
_TRITON = "it launches Triton kernels, so that its recorded outputs are the reference"
_LOAD_EXTENSION = """\
def _load_extension(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
"""


class Places(NamedTuple):
    """Where a kernel's folder finds what the program has: paths from that folder."""

    files: Mapping[str, str]
    """By absolute path of a library or of the function's own file."""
    root: str = ""
    """The folder from which the program imports the function's module."""
    modules: frozenset[str] = frozenset()
    """Names of the modules and packages in that folder."""
    extensions: frozenset[str] = frozenset()
    """Those of them that are compiled."""


class Callee(NamedTuple):
    """What is called."""

    head: str
    """The lines before the call."""
    code: str
    """The expression that is called."""
    reason: str
    """Why it is no reference; empty if it is one."""


class UnwritableCall(Exception):
    """A call that no file can repeat; the text says why and what to name instead."""


def draft_callee(function: Function, plan: ObservedPlan, text: str, places: Places) -> Callee:
    """Return the code of what was called.

    Args:
        function: What was called.
        plan: Its calls.
        text: Source of the function's own file; empty where it has none.
        places: Of its files.

    Raises:
        UnwritableCall: It cannot be copied out of its file, and not loaded from it.
    """
    kind, module, qualname = function["kind"], function["module"], function["qualname"]
    if kind == "torch-function":
        return Callee("", f"{module}.{qualname}", "")
    if kind == "torch-operation":
        return _draft_operation(function, text, places)
    if kind == "extension":
        path = places.files[function["source_file"]]
        name = module.rpartition(".")[2]
        place = f"Path(__file__).parent / {json.dumps(path)}"
        head = f'{_LOAD_EXTENSION}\n\n_extension = _load_extension("{name}", {place})\n'
        return Callee(head, f"_extension.{qualname}", _NO_TORCH)
    if kind == "triton":
        constants = _list_constant_names(plan, text)
        return Callee(
            _slice(function, text, qualname, constants, is_launched=True), qualname, _TRITON
        )
    return _draft_python(function, plan, text, places)


def _draft_operation(function: Function, text: str, places: Places) -> Callee:
    """Return an operation of torch's dispatcher: torch's own, made in Python, or compiled."""
    called = f"torch.ops.{function['module']}.{function['qualname']}.{function['overload']}"
    if function["is_library"]:
        return Callee("", called, "")
    if function["source_file"]:
        name = function["source_file"].rpartition(":")[2]
        reason = _TRITON if function["kernels"] else ""
        return Callee(_slice(function, text, name), name, reason)
    loads = [
        f"torch.ops.load_library(Path(__file__).parent / {json.dumps(path)})"
        for path in places.files.values()
    ]
    return Callee("\n".join(loads) + "\n", called, _NO_TORCH)


def _draft_python(function: Function, plan: ObservedPlan, text: str, places: Places) -> Callee:
    module, qualname = function["module"], function["qualname"]
    reason = _TRITON if function["kernels"] else ""
    imports, own = _list_classes(function, plan)
    called = qualname
    if is_autograd(plan):
        called = f"{qualname.rpartition('.')[0]}.apply"
    if function["is_library"]:
        lines = "".join(f"import {name}\n" for name in sorted({module, *imports}))
        return Callee(lines, f"{module}.{called}", reason)
    owner, _, inner = qualname.partition(".")
    try:
        if inner and not re.search(rf"^class {owner}\b", text, re.MULTILINE):
            raise UnwritableCall(_explain_place(function, "it is defined inside of another one"))
        head = slice_function(text, owner, own)
    except NotSliceable as error:
        return _import_own_file(function, places, called, str(error))
    used = set(_iter_imported(head)) & places.modules
    reason = reason or (_NO_TORCH if used & places.extensions else "")
    others = "".join(f"import {name}\n" for name in imports)
    if used or any(name.partition(".")[0] in places.modules for name in imports):
        others = f"{_extend_path(places)}\n{others}"
    return Callee(f"{others}\n{head}", called, reason)


def is_autograd(plan: ObservedPlan) -> bool:
    """Return whether the calls are of an autograd function's ``forward``, with its context."""
    return any("context" in value for value in plan.calls[0]["arguments"]["positional"][:1])


def _list_classes(function: Function, plan: ObservedPlan) -> tuple[list[str], list[str]]:
    """Return the modules to import for the classes of the arguments, and own classes to copy."""
    imports, own = [], []
    for name in dict.fromkeys(_iter_classes(plan.calls[0]["arguments"])):
        module, _, qualname = name.partition(":")
        if module == function["module"]:
            own.append(qualname)
        elif not module.startswith("torch."):
            imports.append(module)
    return list(dict.fromkeys(imports)), own


def write_class(name: str, function: Function) -> str:
    """Return the expression of a class that was recorded as ``module:name``."""
    module, _, qualname = name.partition(":")
    is_copied = module == function["module"] and not function["is_library"]
    return qualname if is_copied else f"{module}.{qualname}"


def _iter_classes(tree: Any) -> Iterator[str]:
    if isinstance(tree, dict) and "class" in tree and "fields" in tree:
        yield tree["class"]
        for value in tree["fields"].values():
            yield from _iter_classes(value)
    elif isinstance(tree, (dict, list)):
        for value in tree.values() if isinstance(tree, dict) else tree:
            yield from _iter_classes(value)


def _iter_imported(text: str) -> Iterator[str]:
    """Yield the first part of each module that a source imports."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").partition(".")[0]


def _extend_path(places: Places) -> str:
    return f"sys.path.append(str(Path(__file__).parent / {json.dumps(places.root)}))\n"


def _import_own_file(function: Function, places: Places, called: str, why: str) -> Callee:
    """Call a function of the module that the program imports, which must be no script.

    Raises:
        UnwritableCall: The function is in the program's main script, or inside of another one.
    """
    module = function["module"]
    if function["source_file"] not in places.files:
        raise UnwritableCall(_explain_place(function, why))
    head = f"{_extend_path(places)}\nimport {module}\n"
    reason = f"{why}, so that it cannot be copied; its recorded outputs are the reference"
    return Callee(head, f"{module}.{called}", reason)


def _list_constant_names(plan: ObservedPlan, text: str) -> list[str]:
    """Return the functions of the file that a launch passes as constants."""
    codes = {code for call in plan.calls for code in call["launch"]["constants"].values()}
    return sorted(code for code in codes if code.isidentifier() and f"def {code}(" in text)


def _slice(
    function: Function,
    text: str,
    name: str,
    also: list[str] | None = None,
    *,
    is_launched: bool = False,
) -> str:
    try:
        return slice_function(text, name, also or (), is_launched=is_launched)
    except NotSliceable as error:
        raise UnwritableCall(_explain_place(function, str(error))) from error


def _explain_place(function: Function, why: str) -> str:
    return (
        f"{function['name']} cannot be copied out of its file: {why}; move it, with what it "
        "needs, to the top level of a file that the program imports, or name a function that it "
        "calls"
    )


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
