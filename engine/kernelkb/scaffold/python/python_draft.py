"""Drafts a kernel folder for Python functions that launch Triton or CuTe DSL kernels."""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence
from pathlib import PurePosixPath

from kernelkb.scaffold.draft.call_signature import DraftRequest, Function, Parameter, SourceSummary
from kernelkb.scaffold.draft.default_values import guess_shape
from kernelkb.scaffold.draft.kernel_yaml import (
    Draft,
    DraftedVariant,
    assign_field_names,
    format_kernel_yaml,
)
from kernelkb.scaffold.python.python_source import PYTHON_LANGUAGES

_SKIPPABLE = (ast.For, ast.While, ast.With, ast.Expr, ast.Assign, ast.AnnAssign, ast.Assert)


def draft_python_files(request: DraftRequest) -> dict[str, str]:
    """Return kernel.yaml and launch.py for a function of a Python file."""
    function, summary = request.function, request.summary
    parameters, notes = _complete_shapes(function)
    draft = _make_draft(request, parameters, notes)
    skipped = list_skipped(request.text, summary)
    return {
        "kernel.yaml": format_kernel_yaml(draft),
        "launch.py": _draft_launcher(
            draft, function, parameters, skipped, PYTHON_LANGUAGES[summary.kind].call
        ),
    }


def _make_draft(request: DraftRequest, parameters: Sequence[Parameter], notes: list[str]) -> Draft:
    function, language = request.function, PYTHON_LANGUAGES[request.summary.kind]
    inputs = [p for p in parameters if p.role == "input"]
    outputs = [p for p in parameters if p.role == "output"]
    axes = list(dict.fromkeys(d for p in (*inputs, *outputs) for d in p.shape if not d.isdecimal()))
    return Draft(
        name=request.name,
        include=request.include,
        target=request.target,
        axes=axes,
        inputs=inputs,
        outputs=outputs,
        fields=assign_field_names([p.name for p in (*inputs, *outputs)] + axes),
        entry=f"kb_{request.name}",
        variant=DraftedVariant(
            language.variant,
            "launch.py",
            f"{function.name} of {PurePosixPath(request.include).name}",
            returns=any(p.type == "return" for p in outputs),
            kernels=function.launches,
        ),
        notes=notes,
    )


def _complete_shapes(function: Function) -> tuple[list[Parameter], list[str]]:
    """Give tensors without a shape that of the largest known one, and say so."""
    known = [p.shape for p in function.parameters if p.shape]
    common = max(known, key=len, default=("rows", "cols"))
    notes, result = [], []
    for each in function.parameters:
        if each.role in ("input", "output") and not each.shape:
            shape = guess_shape(each.name, common) if each.role == "input" else common
            notes.append(f"the shape of {each.name} was guessed: {' x '.join(shape)}")
            each = each._replace(shape=shape)
        if each.role == "number":
            notes.append(f"{each.name} = {each.value or 'not known'}")
        result.append(each)
    return result, notes


def list_skipped(text: str, summary: SourceSummary) -> list[str]:
    """List the first lines of top-level statements to leave out when the file is loaded.

    They run something, or need a value of one that was left out.
    """
    if not summary.side_effect_lines:
        return []
    lines, names, heads = set(summary.side_effect_lines), set[str](), []
    for statement in ast.parse(text).body:
        if not isinstance(statement, _SKIPPABLE):
            continue
        last = statement.end_lineno or statement.lineno
        loads = {n.id for n in ast.walk(statement) if isinstance(n, ast.Name)}
        if lines & {*range(statement.lineno, last + 1)} or loads & names:
            heads.append(ast.unparse(statement).splitlines()[0])
            targets = getattr(statement, "targets", [getattr(statement, "target", None)])
            names |= {n.id for t in targets if t for n in ast.walk(t) if isinstance(n, ast.Name)}
    return heads


def _draft_launcher(
    draft: Draft,
    function: Function,
    parameters: Sequence[Parameter],
    skipped: Sequence[str],
    body: str,
) -> str:
    """Return a Python module that loads the file and calls its function with tensors only."""
    order = [*draft.inputs, *(p for p in draft.outputs if p.type != "return")]
    arguments = ", ".join(
        draft.fields[p.name] if p.role != "number" else p.value or "FILL_IN"
        for p in parameters
        if p.type != "return"
    )
    declared = ", ".join(draft.fields[p.name] for p in order)
    suffix = {"apply": ".apply", "instance": "()"}.get(function.returns, "")
    called = f"_MODULE.{function.name}{suffix}"
    call = f"    return {called}({arguments})\n"
    picks = [p.value for p in draft.outputs if p.type == "return" and p.value]
    if picks:
        listed = ", ".join(f"results{pick}" for pick in picks) + ("," if len(picks) == 1 else "")
        call = f"    results = {called}({arguments})\n    return {listed}\n"
    if body:
        call = body.replace("CALLED", called).replace("ARGUMENTS", arguments)
    if "_get_stream()" in arguments:
        call += _GET_STREAM
    return _LAUNCHER.format(
        function=function.name,
        file=PurePosixPath(draft.include).name,
        include=draft.include,
        name=draft.name,
        skipped="".join(f"    {json.dumps(head)},\n" for head in skipped),
        declared=declared,
        call=call,
    )


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
    while (root / "__init__.py").exists():
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
