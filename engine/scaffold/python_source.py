"""Finds Triton wrappers and KernelBench classes in Python source, with ``ast``."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kernelkb.scaffold.call_signature import Function, Parameter, SourceSummary

_ALLOWED_CALL_PREFIXES = (
    "sys.path.",
    "warnings.",
    "logging.",
    "os.environ.",
    "torch.manual_seed",
    "torch.set_",
)


def summarize_python(text: str) -> SourceSummary | None:
    """Return the kernels of a Python file; None where it holds none or does not parse."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    if "ModelNew" in classes:
        return SourceSummary("candidate", (Function("ModelNew"),))
    if "Model" in classes and any(f.name == "get_inputs" for f in functions):
        return SourceSummary("kernelbench", (Function("Model"),))
    jitted = [f.name for f in functions if any("jit" in ast.unparse(d) for d in f.decorator_list)]
    if not jitted or "triton" not in text:
        return None
    launching = [
        f
        for f in functions
        if f.name not in jitted and any(f"{n}[" in ast.unparse(f) for n in jitted)
    ]
    wrappers = tuple(Function(f.name, _list_parameters(f)) for f in launching)
    own = frozenset(f.name for f in functions)
    return SourceSummary(
        "triton", wrappers, side_effect_lines=tuple(_iter_side_effect_lines(tree.body, own))
    )


def _list_parameters(function: ast.FunctionDef) -> tuple[Parameter, ...]:
    return tuple(Parameter(a.arg, "tensor", "input") for a in function.args.args)


def _iter_side_effect_lines(body: list[ast.stmt], own: frozenset[str]) -> Iterator[int]:
    """Yield the lines that call, test or assert something when the file is imported.

    Args:
        body: Statements of the file, or of what is nested in it.
        own: Names of the file's functions; calling one counts even where its result is assigned.
    """
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test):
            continue
        nested = [getattr(statement, field, []) for field in ("body", "orelse", "finalbody")]
        if any(nested):
            for inside in nested:
                yield from _iter_side_effect_lines(inside, own)
        elif _has_side_effect(statement, own):
            yield statement.lineno


def _has_side_effect(statement: ast.stmt, own: frozenset[str]) -> bool:
    if isinstance(statement, ast.Assert):
        return True
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return not ast.unparse(statement.value).startswith(_ALLOWED_CALL_PREFIXES)
    calls = (node.func for node in ast.walk(statement) if isinstance(node, ast.Call))
    return any(isinstance(called, ast.Name) and called.id in own for called in calls)
