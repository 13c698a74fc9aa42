"""Reads a Python file with a kernel, and drafts kernel.yaml from it."""

from __future__ import annotations

import ast
import builtins
import copy
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import NamedTuple

from kernelkb.errors import BadValueError
from kernelkb.loading.kernels import FILL_IN_MARK
from kernelkb.model.base import Target
from kernelkb.model.kernels.languages import LanguageName
from kernelkb.scaffold.answers import (
    apply_answers,
    find_answer,
    find_source_name,
    mark_unknown,
)
from kernelkb.scaffold.cpp.source import summarize_c_source
from kernelkb.scaffold.draft import (
    Draft,
    DraftedFiles,
    DraftedVariant,
    DraftRequest,
    Function,
    Parameter,
    SourceSummary,
    list_defaults,
    make_draft,
    to_field_name,
)
from kernelkb.scaffold.draft_text import finish_draft
from kernelkb.scaffold.extents import list_axes, rename_axes
from kernelkb.scaffold.python.accesses import unify_accesses
from kernelkb.scaffold.python.arguments import list_defaults as list_values
from kernelkb.scaffold.python.branches import ARRAY, list_stored
from kernelkb.scaffold.python.embedded import find_cuda_text
from kernelkb.scaffold.python.functions import RETURNED, STREAM, read_python_function
from kernelkb.scaffold.python.launcher import count_levels, draft_launcher
from kernelkb.scaffold.python.launches import Kernels, list_launches
from kernelkb.scaffold.python.needs import list_needs
from kernelkb.scaffold.python.nodes import find_first, iter_named, walk_own, write_plainly

_ALLOWED_CALL_PREFIXES = (
    *("sys.path.", "warnings.", "logging.", "os.environ.", "torch.manual_seed", "torch.set_"),
    *("torch.backends.", "torch.library.", "torch.fx.", "logger.", "torch._dynamo.", "tl."),
)
_SKIPPABLE = (ast.For, ast.While, ast.With, ast.Expr, ast.Assign, ast.AnnAssign, ast.Assert)
_TEST_NAME = re.compile(r"_*(?:test|tests|bench|benchmark|verify|main)(?:_|$)")
_BACKWARD = re.compile(r"backward|bwd|_bw(?:_|$)|(?:^|_)d[xwqkv](?:_|$)", re.IGNORECASE)
_CUTE_CALL = """\
    import cutlass.cute as cute
    from cutlass.cute.runtime import from_dlpack

    arguments = [
        from_dlpack(each) if hasattr(each, "__dlpack__") else each for each in (ARGUMENTS,)
    ]
    key = tuple(
        (*each.shape, each.element_type) if hasattr(each, "shape") else each for each in arguments
    )
    if key not in _COMPILED:
        _COMPILED[key] = cute.compile(CALLED, *arguments)
    return _COMPILED[key](*arguments)


_COMPILED = {}
"""


def _iter_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield a module's statements, also those that it tries as a package may be absent.

    And those that it defines on a condition, as on a new release of Triton.
    """
    for node in body:
        if isinstance(node, ast.Try):
            yield from _iter_level(node.body)
        elif isinstance(node, ast.If) and "__name__" not in ast.unparse(node.test):
            is_old = re.search(r"version\w*(?:\([^)]*\))? *(?:==|<)", ast.unparse(node.test))
            yield from _iter_level(node.orelse if is_old else node.body)
        else:
            yield node


def summarize_python(
    text: str, said: Mapping[str, object] = MappingProxyType({})
) -> SourceSummary | None:
    """Return the kernels of a Python file; None where it holds none or does not parse.

    Args:
        text: What the file holds.
        said: Values of arguments that functions have defaults for, by name.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None
    tree.body = list(_iter_level(write_plainly(tree).body))
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    if "ModelNew" in classes:
        return SourceSummary("candidate", (Function("ModelNew"),))
    if "Model" in classes and any(f.name == "get_inputs" for f in functions):
        return SourceSummary("kernelbench", (Function("Model"),))
    for name, language in PYTHON_LANGUAGES.items():
        if (found := language.find(tree, text, said)) is not None:
            target = language.targets[0]
            return SourceSummary(name, found[0], target, inner=found[1])
    embedded = find_cuda_text(tree)
    return summarize_embedded(embedded) if embedded else None


def summarize_embedded(text: str) -> SourceSummary | None:
    """Return the kernels of CUDA text that stood in strings of a Python file."""
    inner = summarize_c_source("strings.cu", text)
    return inner._replace(kind="embedded", embedded=text) if inner is not None else None


_Found = tuple[tuple[Function, ...], tuple[Function, ...]]
"""Functions that launch a kernel, and those that call one of them."""


def _find_triton_functions(
    tree: ast.Module, text: str, said: Mapping[str, object]
) -> _Found | None:
    kernels = _list_kernels(tree)
    return _list_wrappers(tree, kernels, said) if kernels.nodes and "triton" in text else None


def _list_kernels(tree: ast.Module) -> Kernels:
    """Return the kernels of Triton, also nested or behind autotune and heuristics."""
    owners = {
        id(method): f"{node.name}.{method.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for method in node.body
        if isinstance(method, ast.FunctionDef)
    }
    decorated = {
        owners.get(id(node), node.name): node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and any("jit" in ast.unparse(d) and "jitted" not in node.name for d in node.decorator_list)
        and not any("cute." in ast.unparse(d) for d in node.decorator_list)
    }
    functions = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}
    wrapped = {
        name: each
        for node in tree.body
        for _, value in (iter_named(node) if isinstance(node, ast.Assign) else ())
        for name, each in _find_wrapped(value, functions).items()
    }
    nodes = unify_accesses({**_list_imported(tree), **decorated, **wrapped})
    inner = [each for node in tree.body if isinstance(node, ast.ClassDef) for each in _bind(node)]
    return Kernels(nodes, [*(n for n in tree.body if isinstance(n, ast.Assign)), *inner])


def _list_imported(tree: ast.Module) -> dict[str, ast.FunctionDef | None]:
    """Map each kernel of another file to None: ``k``, or ``kernels.k`` of a module."""
    launched = {
        word
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript)
        if not isinstance(getattr(node.func.slice, "value", None), str)  # no key of a table
        for word in _NAMES.findall(ast.unparse(node.func.value))
    }
    imported: dict[str, ast.FunctionDef | None] = {}
    for node in ast.walk(tree):
        for alias in node.names if isinstance(node, ast.Import | ast.ImportFrom) else ():
            name, is_from = alias.asname or alias.name, isinstance(node, ast.ImportFrom)
            own = [w for w in launched if w.startswith(f"{name}.") and name not in _NO_KERNELS]
            imported |= dict.fromkeys(own)
            if is_from and not own and ("kernel" in alias.name or name in launched - _NO_KERNELS):
                imported[name] = None
    return imported


_NAMES = re.compile(r"[A-Za-z_][\w.]*")
_NO_KERNELS = {"torch", "triton", "wrap_triton"}
_WRAPS = re.compile(r"\b(?:jit|autotune|heuristics)\b")


def _find_wrapped(
    value: ast.expr, functions: Mapping[str, ast.FunctionDef]
) -> dict[str, ast.FunctionDef]:
    """Return the function of ``triton.autotune(...)(triton.jit(f))`` with that as decorators."""
    wraps = list[ast.expr]()
    while isinstance(value, ast.Call) and value.args:
        wraps.append(value.func)
        value = value.args[0]
    inner = functions.get(value.id) if isinstance(value, ast.Name) else None
    if inner is None or not any(_WRAPS.search(ast.unparse(each)) for each in wraps):
        return {}
    whole = copy.copy(inner)
    whole.decorator_list = [*wraps, *inner.decorator_list]
    return {inner.name: whole}


def _bind(owner: ast.ClassDef) -> Iterator[ast.Assign]:
    """Yield what a class assigns, as its users name it: ``Sizes.ROWS = 8``."""
    for node in owner.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        value = getattr(node, "value", None)
        if isinstance(target, ast.Name) and value is not None:
            own = ast.Attribute(ast.Name(owner.name, ast.Load()), target.id, ast.Store())
            yield ast.copy_location(ast.Assign([own], value), node)


def _list_wrappers(tree: ast.Module, kernels: Kernels, said: Mapping[str, object]) -> _Found:
    """List the functions that launch a kernel, and those that call such a one.

    ``forward`` of an autograd function is entered through a function that applies its class.
    """
    last = {f.name: f for f in tree.body if isinstance(f, ast.FunctionDef) and f.name != "_"}
    plain = [f for f in last.values() if f.name not in kernels.nodes]
    direct = {f.name: list_launches(f, kernels) for f in plain}
    made = {f.name: each for f in plain if direct[f.name] and (each := _find_made(f))}
    launching = {name: launched for name, launched in direct.items() if launched}
    running = {n: each for n, each in launching.items() if not _only_compiles(last[n])}
    launching = running or launching
    callers = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    kernels = kernels._replace(functions={f.name: f for f in plain})
    entries = {f.name: _list_indirect(f, launching) for f in plain if f.name not in launching}
    found, inner = (
        [
            read_python_function(f, kernels, group[f.name], callers=callers, said=said)
            for f in plain
            if group.get(f.name) and f.name not in made
        ]
        for group in (launching, entries)
    )
    for owner in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        if any(ast.unparse(base).endswith("Function") for base in owner.bases):
            for method, launched in _list_forward(owner, kernels, launching):
                read = read_python_function(
                    method, kernels, launched, owner.name, callers=callers, said=said
                )
                found.append(read)
    found = [*_order_menu(found), *(_refuse_made(n, each, direct[n]) for n, each in made.items())]
    return (*found,), (*inner,)


_Definition = ast.FunctionDef | ast.ClassDef


def _find_made(function: ast.FunctionDef) -> _Definition | None:
    """Return what a function makes and returns in place of arrays: it launches nothing itself."""
    nodes = [*walk_own(function)]
    returned = {find_first(n.value) for n in nodes if isinstance(n, ast.Return) and n.value}
    made = [n for n in nodes if isinstance(n, _Definition) and n.name in returned]
    is_launch = (isinstance(n, ast.Call) and isinstance(n.func, ast.Subscript) for n in nodes)
    return made[0] if returned == {n.name for n in made} and made and not any(is_launch) else None


def _refuse_made(name: str, made: _Definition, launches: tuple[str, ...]) -> Function:
    """Return what a function makes, with how it can be drafted: no launcher can name it."""
    given = made.args if isinstance(made, ast.FunctionDef) else None
    arguments = ", ".join(a.arg for a in given.args) if given else "..."
    return Function(
        made.name,
        style="python",
        line=made.lineno,
        launches=launches,
        lacks=(
            f"{made.name} (line {made.lineno}) is made by {name}() when that is called, and a "
            f"draft calls functions that the file defines: write one, def NAME({arguments}): "
            f"return {name}(...)({arguments}), and draft it with kb init FILE --kernel NAME; or "
            f'record a run with kb init --from "python PROGRAM" --op {made.name}'
        ),
    )


def _only_compiles(function: ast.FunctionDef) -> bool:
    """Whether a function launches no kernel that it compiles, such as to read its registers."""
    text = ast.unparse(function)
    return ".warmup(" in text and "](" not in text


def _order_menu(found: list[Function]) -> tuple[Function, ...]:
    """Put what is most likely wanted first: forward before backward; tests only if alone."""
    kept = [f for f in found if not _TEST_NAME.match(f.name)] or found
    return tuple(
        sorted(kept, key=lambda f: (bool(_BACKWARD.search(f.name)), f.name.startswith("_")))
    )


def _list_forward(
    owner: ast.ClassDef,
    kernels: Kernels,
    launching: dict[str, tuple[str, ...]],
) -> Iterator[tuple[ast.FunctionDef, tuple[str, ...]]]:
    """Yield what ``apply`` of an autograd function enters, with its kernels.

    That is ``forward``, or the method with named arguments that it passes all of its own to.
    """
    methods = {m.name: m for m in owner.body if isinstance(m, ast.FunctionDef)}
    forward = methods.get("forward")
    if forward is not None and forward.args.vararg is not None:
        called = re.findall(r"\w+", ast.unparse(forward))
        others = (methods[n] for n in called if n in methods and n != "forward")
        forward = forward if list_launches(forward, kernels) else next(others, None)
    if forward is not None:
        launched = list_launches(forward, kernels) or _list_indirect(forward, launching)
        if launched:
            yield forward, launched


def _list_indirect(
    function: ast.FunctionDef, launching: dict[str, tuple[str, ...]]
) -> tuple[str, ...]:
    names = [
        n.func.id
        for n in ast.walk(function)
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
    ]
    return tuple(kernel for name in names for kernel in launching.get(name, ()))


def _find_cute_functions(
    tree: ast.Module, _text: str, _said: Mapping[str, object]
) -> _Found | None:
    """List the host functions that launch what CuTe DSL compiles."""
    found = [
        read_python_function(node, Kernels({}), (), takes_tensors=True)
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and _is_cute_host(node)
        if ".launch(" in ast.unparse(node)
    ]
    return ((*found,), ()) if found else None


def _is_cute_host(function: ast.FunctionDef) -> bool:
    return any(ast.unparse(d).startswith("cute.jit") for d in function.decorator_list)


class PythonLanguage(NamedTuple):
    """A language whose kernels stand in Python files, and how ``kb init`` drafts for it."""

    title: str
    find: Callable[[ast.Module, str, Mapping[str, object]], _Found | None]
    """Returns the functions of a file, given its tree, its text and values of arguments, that
    launch kernels of this language; None where the file has no such kernel."""
    variant: LanguageName
    """The language of the drafted variant in kernel.yaml."""
    call: str = ""
    """The launcher's body, with CALLED and ARGUMENTS; empty for a plain call."""
    targets: tuple[Target, ...] = ("cuda",)
    """Where its kernels run; the first one counts where none is wanted."""


PYTHON_LANGUAGES: dict[str, PythonLanguage] = {
    "cute": PythonLanguage("CuTe DSL", _find_cute_functions, "python", _CUTE_CALL),
    "triton": PythonLanguage("Triton", _find_triton_functions, "triton"),
}
"""By name; the first that finds functions in a file counts."""


def draft_python_files(request: DraftRequest) -> DraftedFiles:
    """Return kernel.yaml and launch.py for a function of a Python file."""
    request, summary = _quote_words(request), request.summary
    function = _read_again(request)
    if function.lacks:
        raise BadValueError(function.lacks)
    request = request._replace(function=function)
    said = _join_returned(
        function, apply_answers(function.parameters, request.answers, request.observed)
    )
    said = _name_parts(function, said)
    marked = mark_unknown(said, request.text, function.line)
    parameters = _write_numbers(marked, _make_draft(request, marked, []), request.text)
    function = function._replace(parameters=tuple(parameters))
    notes = [*list_defaults(function), *_list_left(function, request.text)]
    copied = [p.name for p in parameters if p.role == "input" and p.value]
    if copied:
        notes.append(f"{', '.join(copied)}: a copy for each call, which the kernel changes")
    draft = _make_draft(request, parameters, notes)
    skipped = list_skipped(request.text)
    body, levels = PYTHON_LANGUAGES[summary.kind].call, count_levels(request.text)
    launcher = draft_launcher(draft, function, parameters, skipped, body, levels)
    names = [*(p.name for p in parameters), *function.options]
    drafted = finish_draft(draft, {"launch.py": launcher}, names)
    return drafted._replace(warnings=(*list_needs(function, request.text),))


def _list_left(function: Function, text: str) -> list[str]:
    """Return the defaults of the arguments that a call leaves out, as a note."""
    nodes = (n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef))
    own = next((list_values(n) for n in nodes if n.lineno == function.line), {})
    left = [f"{n}={ast.unparse(own[n])}" for n in function.options if n in own]
    return [f"left at their defaults: {', '.join(left)}"] if left else []


def _quote_words(request: DraftRequest) -> DraftRequest:
    """Return a request in which each plain word that was said of a string is one in quotes."""
    names = {key: w for w in request.function.words for key in (w.lower(), to_field_name(w))}
    bound = {name for each in ast.parse(request.text).body for name in list_bound_names(each)}
    plain = re.compile(r"(?!(?:None|True|False)$)[A-Za-z_][\w.+-]*")
    answers = {
        key: repr(said) if key in names and plain.fullmatch(said) and said not in bound else said
        for key, said in request.answers.items()
    }
    return request._replace(answers=answers)


def _read_again(request: DraftRequest) -> Function:
    """Return a function as its file shows it where arguments are what was said of them."""
    function, said = request.function, dict[str, object]()
    for name in (*function.options, *(p.name for p in function.parameters)):
        if text := find_answer(request.answers, name):
            try:
                said[name] = ast.literal_eval(text) if not text.startswith("[") else ARRAY
            except (ValueError, SyntaxError):
                said[name] = ARRAY
    summary = summarize_python(request.text, said) if said else None
    every = (*summary.functions, *summary.inner) if summary else ()
    return next((f for f in every if (f.name, f.line) == (function.name, function.line)), function)


def _join_returned(function: Function, said: Sequence[Parameter]) -> list[Parameter]:
    """Return parameters without what is returned and is an argument that was said to be an output.

    An argument that was said to be an input, as the launcher may write into it, gets a copy.
    """
    outputs = {p.name for p in said if p.role == "output" and p.type != "return"}
    own = {p.name for p in function.parameters if p.origin in {RETURNED + n for n in outputs}}
    asked = {p.name for p in function.parameters if p.role == "output" or not p.is_certain}
    asked &= {p.name for p in said} if any(p.type == "return" for p in said) else set()
    found = []
    for each in said:
        is_input = each.role == "input" and "role" in each.origin
        copy = f"{each.name}.clone()" if is_input and each.name in asked else each.value
        found += [] if each.name in own else [each._replace(value=copy)]
    return found


def _name_parts(function: Function, said: Sequence[Parameter]) -> list[Parameter]:
    """Return parameters with each name that is a part of an axis as that: ``three_H // 3``."""
    known = {dim for each in function.parameters for dim in each.shape}
    taken = {to_field_name(name) for name in (*known, *(p.name for p in said))}
    plain = {dim for each in said for dim in each.shape}
    parts = {
        to_field_name(name): part
        for name, part in function.parts
        if part.partition(" ")[0] in plain and to_field_name(name) not in taken
    }
    axes = {axis: to_field_name(axis) for axis in list_axes([*plain])}
    inner = {axis: f"({parts[name]})" for axis, name in axes.items() if name in parts}
    return [
        p._replace(shape=tuple(parts.get(axes.get(d, d)) or rename_axes(d, inner) for d in p.shape))
        for p in said
    ]


def _write_numbers(parameters: Sequence[Parameter], draft: Draft, text: str) -> list[Parameter]:
    """Return parameters with each number as an expression of what launch.py has.

    An axis is read from the shape of an array that is passed, and a name of the file from its
    module. A number that needs another name is asked for.

    Raises:
        BadValueError: What was said is no expression of Python.
    """
    passed = [*draft.inputs, *(p for p in draft.outputs if p.type != "return")]
    axes = {
        dim: f"{draft.fields[p.name]}.shape[{at}]"
        for p in reversed(passed)
        for at, dim in enumerate(p.shape)
        if not dim.isdecimal()
    }
    module = {
        name: f"_MODULE.{name}" for each in ast.parse(text).body for name in list_bound_names(each)
    }
    found = []
    for each in parameters:
        is_axis = each.role == "size" or (each.value == FILL_IN_MARK and each.name in axes)
        if is_axis and each.role in ("size", "number"):
            each = each._replace(role="number", value=each.name, origin=each.origin or "said")
            each = _write_number(each, axes)
        elif each.role == "number" and each.value not in (FILL_IN_MARK, STREAM):
            is_said = each.origin in ("said", "observed")
            each = _write_number(each, {**module, **axes} if is_said else module)
        found.append(each)
    return found


def list_bound_names(statement: ast.AST) -> list[str]:
    """List the names that a statement binds itself, and not by what stands in its branches."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [statement.name]
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return [alias.asname or alias.name.partition(".")[0] for alias in statement.names]
    if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        return [n.id for each in targets for n in ast.walk(each) if isinstance(n, ast.Name)]
    return []


def _write_number(number: Parameter, written: Mapping[str, str]) -> Parameter:
    try:
        tree = ast.parse(number.value, mode="eval")
    except (SyntaxError, ValueError, RecursionError) as error:
        raise BadValueError(
            f"--set '{number.name}={number.value}' is no expression of Python; "
            f"give a number, '{number.name}=axis' or an expression of axes"
        ) from error
    missing = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            name = find_source_name(node.id, [*written])
            if name not in written and not hasattr(builtins, name):
                missing.append(name)
            node.id = written.get(name, name)
    if missing:
        why = (
            f"no array that is passed has the axis {missing[0]}: say a shape with it, a number, or "
            f"a string as '{number.name}=\"{missing[0]}\"'"
        )
        return number._replace(value=FILL_IN_MARK, guess="", use=why)
    return number._replace(value=ast.unparse(tree))


def _make_draft(request: DraftRequest, parameters: Sequence[Parameter], notes: list[str]) -> Draft:
    function, language = request.function, PYTHON_LANGUAGES[request.summary.kind]
    outputs = [p for p in parameters if p.role == "output"]
    written = [p.name for p in outputs if p.type != "return"]
    if 0 < len(written) < len(outputs):
        raise BadValueError(
            f"{function.name} returns other arrays, so {written[0]} cannot be an output beside "
            f"them: say {written[0]}.role=input, which passes a copy that nothing checks"
        )
    variant = DraftedVariant(
        language.variant,
        "launch.py",
        f"{function.name} of {PurePosixPath(request.include).name}",
        returns=any(p.type == "return" for p in parameters),
        kernels=[name.rpartition(".")[2] for name in function.launches],
    )
    return make_draft(request, parameters, variant, notes=notes)


def list_skipped(text: str) -> list[str]:
    """List the first lines of top-level statements to leave out when the file is loaded.

    They call or assert something, or need a value of one that was left out.
    """
    tree, names, heads = ast.parse(text), set[str](), []
    own = {n.name for n in _iter_level(tree.body) if isinstance(n, ast.FunctionDef)}
    for statement in tree.body:
        loads = {n.id for n in ast.walk(statement) if isinstance(n, ast.Name)}
        is_skipped = loads & names or _runs(statement, own)
        if isinstance(statement, _SKIPPABLE) and is_skipped:
            heads.append(ast.unparse(statement).splitlines()[0])
            names |= {*list_stored(statement)}
    return heads


def _runs(statement: ast.stmt, own: set[str]) -> bool:
    """Whether a statement calls or asserts something; calling a function of the file counts."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return False
    if nested := [n for n in ast.iter_child_nodes(statement) if isinstance(n, ast.stmt)]:
        return any(_runs(each, own) for each in nested)
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return not ast.unparse(statement.value).startswith(_ALLOWED_CALL_PREFIXES)
    calls = (node.func for node in ast.walk(statement) if isinstance(node, ast.Call))
    is_own = any(isinstance(called, ast.Name) and called.id in own for called in calls)
    return is_own or isinstance(statement, ast.Assert)
