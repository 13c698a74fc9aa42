"""What a Python file holds: Triton kernels with their wrappers, tasks of KernelBench."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kernelkb.scaffold.call_signature import Function, Parameter, SourceSummary

_HARMLESS_CALLS = (
    "sys.path.",
    "warnings.",
    "logging.",
    "os.environ.",
    "torch.manual_seed",
    "torch.set_",
)


def summarize_python(text: str) -> SourceSummary | None:
    """Return what a Python file holds, None when there is no kernel in it."""
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
    found = tuple(Function(f.name, _list_parameters(f)) for f in launching)
    own = frozenset(f.name for f in functions)
    return SourceSummary(
        "triton", found, side_effect_lines=tuple(_iter_side_effect_lines(tree.body, own))
    )


def _list_parameters(function: ast.FunctionDef) -> tuple[Parameter, ...]:
    return tuple(Parameter(a.arg, "tensor", "input") for a in function.args.args)


def _iter_side_effect_lines(body: list[ast.stmt], own: frozenset[str]) -> Iterator[int]:
    """Yield the lines on which loading a file prints, tests or times something.

    Args:
        body: Statements of the file, or of what is nested in it.
        own: The file's own functions; calling one is work, whatever its result is for.
    """
    for one in body:
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if isinstance(one, ast.If) and "__name__" in ast.unparse(one.test):
            continue
        nested = [getattr(one, field, []) for field in ("body", "orelse", "finalbody")]
        if any(nested):
            for inside in nested:
                yield from _iter_side_effect_lines(inside, own)
        elif _has_side_effect(one, own):
            yield one.lineno


def _has_side_effect(one: ast.stmt, own: frozenset[str]) -> bool:
    if isinstance(one, ast.Assert):
        return True
    if isinstance(one, ast.Expr) and isinstance(one.value, ast.Call):
        return not ast.unparse(one.value).startswith(_HARMLESS_CALLS)
    calls = (node.func for node in ast.walk(one) if isinstance(node, ast.Call))
    return any(isinstance(called, ast.Name) and called.id in own for called in calls)
