"""The text of launch.py: it loads a Python file, and calls its function with tensors."""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence
from pathlib import PurePosixPath

from kernelkb.scaffold.draft import Draft, Function, Parameter, list_all_inputs
from kernelkb.scaffold.python.functions import STREAM

_GET_STREAM = """\


def _get_stream():
    import cuda.bindings.driver as driver
    import torch

    return driver.CUstream(torch.cuda.current_stream().cuda_stream)
"""
_LAUNCHER = '''\
"""Loads {function} from {file}, without the statements below that run something."""

import ast
import importlib
import importlib.util
import sys
import types
from pathlib import Path

_FILE = Path(__file__).resolve().parent / "{include}"
_SKIPPED = {{
{skipped}}}


def _load():
    parts, root = [], _FILE.parent
    while (root / "__init__.py").exists() or len(parts) < {levels}:  # of its relative imports
        parts.insert(0, root.name)
        root = root.parent
    sys.path.insert(0, str(root))
    sys.path += [str(folder) for folder in root.parents[:4]]  # last: they hide no package
    try:
        importlib.import_module(".".join(parts) or "ast")
    except Exception:  # the package needs what is not installed; this file may do without
        for count in range(1, len(parts) + 1):
            package = types.ModuleType(".".join(parts[:count]))
            package.__path__ = [str(root.joinpath(*parts[:count]))]
            sys.modules[package.__name__] = package
    name = ".".join([*parts, _FILE.stem]) if parts else "kb_source_{name}"
    spec = importlib.util.spec_from_file_location(name, _FILE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    tree = ast.parse(_FILE.read_text(encoding="utf-8"))
    tree.body = [n for n in tree.body if ast.unparse(n).splitlines()[0] not in _SKIPPED]
    exec(compile(tree, str(_FILE), "exec"), module.__dict__)
    return module


_MODULE = _load()


def kb_{name}({declared}):
{call}'''


def count_levels(text: str) -> int:
    """Return how many packages a Python file's relative imports need above it: 2 for ``from ..a``.

    Folders without ``__init__.py`` are packages, too, where an import needs them.
    """
    nodes = ast.walk(ast.parse(text))
    return max((n.level for n in nodes if isinstance(n, ast.ImportFrom)), default=0)


def draft_launcher(
    draft: Draft,
    function: Function,
    parameters: Sequence[Parameter],
    skipped: Sequence[str],
    body: str,
    levels: int,
) -> str:
    """Return a Python module that loads the file and calls its function with tensors only.

    Args:
        draft: The kernel.
        function: What is called.
        parameters: Of the function, in its order.
        skipped: First lines of the statements to leave out.
        body: A language's own call with CALLED and ARGUMENTS; empty for a plain one.
        levels: See ``count_levels``.
    """
    order = [*list_all_inputs(draft), *(p for p in draft.outputs if p.type != "return")]
    return _LAUNCHER.format(
        function=function.name,
        file=PurePosixPath(draft.include).name,
        include=draft.include,
        name=draft.name,
        levels=levels,
        skipped="".join(f"    {json.dumps(head)},\n" for head in skipped),
        declared=", ".join(draft.fields[p.name] for p in order),
        call=_write_call(draft, function, parameters, body),
    )


def _write_call(
    draft: Draft, function: Function, parameters: Sequence[Parameter], body: str
) -> str:
    """Return the lines that call a function and return its outputs."""
    arguments = ", ".join(_write_argument(draft, p) for p in parameters if p.type != "return")
    called = f"_MODULE.{function.name}{'.apply' if function.returns == 'apply' else ''}"
    call = f"    return {called}({arguments})\n"
    picks = [p.value for p in draft.outputs if p.type == "return" and p.value]
    if picks:
        listed = ", ".join(f"results{pick}" for pick in picks) + ("," if len(picks) == 1 else "")
        call = f"    results = {called}({arguments})\n    return {listed}\n"
    if body:
        call = body.replace("CALLED", called).replace("ARGUMENTS", arguments)
    if STREAM in arguments:
        call += _GET_STREAM
    return call


def _write_argument(draft: Draft, parameter: Parameter) -> str:
    """Return what is passed for a parameter."""
    text = parameter.value or "FILL_IN"
    if parameter.role != "number":
        text = draft.fields[parameter.name] + (".clone()" if parameter.value else "")
    return f"{parameter.name}={text}" if parameter.by_name else text
