"""A kernel.yaml for somebody's own kernel, with marks where only they can know."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import PurePosixPath

from kernelkb.loading.kernel_files import FILL_IN_MARK, to_snake_case
from kernelkb.model.base import Target
from kernelkb.scaffold.call_signature import Function, Parameter, SourceSummary
from kernelkb.scaffold.launchers import (
    assign_field_names,
    draft_c_launcher,
    draft_include,
    draft_python_launcher,
    draft_reference,
    make_start_input,
)

_FLAT_SIZE, _SMALL_SIZE, _LARGE_SIZE = 2**12, 64, 1024
_ODD_SIZES = (33, 17, 5, 3, 2)
_INTEGER_BOUND = 32
"""Integers are drawn below this, so that one that chooses an element of the only axis exists."""


def choose_function(summary: SourceSummary) -> Function:
    """Return the function that is drafted: one with our interface, else the first launcher."""
    return next((one for one in summary.functions if one.is_variant), summary.functions[0])


def draft_c_files(
    name: str, summary: SourceSummary, include: str, target: Target
) -> dict[str, str]:
    """Return kernel.yaml, reference.py and a launcher for a C or CUDA file.

    Args:
        name: The kernel's id.
        summary: What the file holds.
        include: The file, as the launcher's folder sees it.
        target: Where it runs.
    """
    function = choose_function(summary)
    arrays = [p for p in function.parameters if p.role in ("input", "output")]
    outputs = [p for p in arrays if p.role == "output"]
    inputs = [p for p in arrays if p.role == "input"] + [
        make_start_input(p) for p in outputs if p.is_read
    ]
    sizes = [p.name for p in function.parameters if p.role == "size"]
    named = assign_field_names([p.name for p in (*inputs, *outputs)] + sizes)
    axes = [named[one] for one in sizes]
    nothing = f"  - {{name: {FILL_IN_MARK}, shape: [{FILL_IN_MARK}], dtype: {FILL_IN_MARK}}}\n"
    source = "launch.cu" if target == "cuda" else "launch.cpp"
    text = _format_head(name, axes or [FILL_IN_MARK], target, include)
    text += "inputs:\n" + ("".join(_format_input(p, axes, named) for p in inputs) or nothing)
    text += "outputs:\n" + ("".join(_format_output(p, axes, named) for p in outputs) or nothing)
    text += _format_tail(function.name if function.is_variant else f"kb_{name}", target)
    text += f"    language: {_select_language(target)}\n    source: {source}\n"
    kernels = ", ".join(f.name for f in summary.functions if f.is_kernel)
    text += f"    kernels: [{kernels}]\n    summary: {_format_summary(function, include)}\n"
    taken = draft_include(include, has_main=summary.has_main)
    launcher = taken if function.is_variant else draft_c_launcher(name, function, taken, target)
    return {
        "kernel.yaml": text,
        "reference.py": draft_reference(name, (named[p.name] for p in inputs)),
        source: launcher,
    }


def draft_python_files(name: str, summary: SourceSummary, include: str) -> dict[str, str]:
    """Return kernel.yaml, reference.py and a wrapper for a Triton file."""
    function = choose_function(summary)
    named = assign_field_names(p.name for p in function.parameters)
    text = _format_head(name, [FILL_IN_MARK], "cuda", include)
    text += "inputs:\n"
    for one in named.values():
        text += f"  - {{name: {one}, shape: [{FILL_IN_MARK}], dtype: {FILL_IN_MARK}}}\n"
    text += f"outputs:\n  - {{name: out, shape: [{FILL_IN_MARK}], dtype: {FILL_IN_MARK}}}\n"
    text += _format_tail(function.name, "cuda")
    text += "    language: triton\n    source: launch.py\n    returns: true\n"
    text += f"    summary: {_format_summary(function, include)}\n"
    return {
        "kernel.yaml": text,
        "reference.py": draft_reference(name, named.values()),
        "launch.py": draft_python_launcher(name, function, include, summary.side_effect_lines),
    }


def draft_extension_files(
    name: str, summary: SourceSummary, include: str, others: Sequence[str], target: Target
) -> dict[str, str]:
    """Return kernel.yaml, reference.py and sources for a torch extension.

    Args:
        name: The kernel's id.
        summary: What the file that binds it holds.
        include: That file, as the sources' folder sees it.
        others: The files that define what it uses and does not define.
        target: Where it runs.
    """
    function = choose_function(summary)
    names = " or ".join(one.name for one in summary.functions)
    text = _format_head(name, [FILL_IN_MARK], target, include)
    text += (
        f"inputs:\n  - {{name: {FILL_IN_MARK}, shape: [{FILL_IN_MARK}], dtype: {FILL_IN_MARK}}}\n"
    )
    text += f"outputs:\n  - {{name: out, shape: [{FILL_IN_MARK}], dtype: {FILL_IN_MARK}}}\n"
    several = len(summary.functions) > 1
    text += _format_tail(f"{FILL_IN_MARK}  # {names}" if several else function.name, target)
    source = f"launch{PurePosixPath(include).suffix}"
    beside = {_name_including_file(PurePosixPath(one)): one for one in others}
    text += f"    language: {_select_language(target)}\n    binding: torch-extension\n"
    text += f"    source: {source}\n"
    if beside:
        text += f"    also: [{', '.join(beside)}]\n"
    elif summary.missing_functions:
        text += f"    also: [{FILL_IN_MARK}]  # a file beside this one that includes what defines "
        text += f"{', '.join(summary.missing_functions)}\n"
    said = "a torch extension" if several else f"{function.name} of a torch extension"
    text += f"    returns: true\n    summary: {said}\n"
    return {
        "kernel.yaml": text,
        "reference.py": draft_reference(name, ["x"]),
        source: draft_include(include),
        **{file: draft_include(one) for file, one in beside.items()},
    }


def _name_including_file(path: PurePosixPath) -> str:
    """Return the name of the file, next to kernel.yaml, that takes another one in."""
    words = "_".join(path.with_suffix("").parts).replace(".", "")
    return f"{to_snake_case(words)}{path.suffix}"


def _select_language(target: Target) -> str:
    return "cuda" if target == "cuda" else "c++"


def _format_summary(function: Function, include: str) -> str:
    return json.dumps(f"{function.name} as it stands in {include.rpartition('/')[2]}")


def _format_head(name: str, axes: Sequence[str], target: Target, include: str) -> str:
    small = ", ".join(f"{a}: {_FLAT_SIZE if len(axes) == 1 else _SMALL_SIZE}" for a in axes)
    large = ", ".join(f"{a}: {_FLAT_SIZE * 4096 if len(axes) == 1 else _LARGE_SIZE}" for a in axes)
    odd = ", ".join(f"{a}: {n}" for a, n in zip(axes, cycle(_ODD_SIZES), strict=False))
    rule = f"Replace every {FILL_IN_MARK}; kb refuses the file until none is left."
    return f"""\
# Written by kb init from "{include}". {rule}
# kb show row_softmax prints a finished one.
id: {name}
title: {json.dumps(name.replace("_", " ").strip())}
axes: [{", ".join(axes)}]
workloads:
  small: {{{small}}}
  large: {{{large}}}
default_workload: {{{target}: large}}
check_workloads:
  - {{{odd}}}
"""


def _format_input(one: Parameter, axes: Sequence[str], named: Mapping[str, str]) -> str:
    if one.dtype is None or one.dtype.startswith(("float", "bfloat")):
        return _format_array(one, axes, named, ", fill: normal")
    below = "2" if one.dtype == "bool" else str(_INTEGER_BOUND)
    if one.is_index and len(axes) != 1:
        below = FILL_IN_MARK
    return _format_array(one, axes, named, f", fill: integers, scale: {below}")


def _format_output(one: Parameter, axes: Sequence[str], named: Mapping[str, str]) -> str:
    return _format_array(
        one, axes, named, f", starts_as: {named[make_start_input(one).name]}" if one.is_read else ""
    )


def _format_array(one: Parameter, axes: Sequence[str], named: Mapping[str, str], more: str) -> str:
    shape = axes[0] if len(axes) == 1 else FILL_IN_MARK
    name = named[one.name]
    doubt = f"  # kb init cannot see how {name} is used: should it be among the inputs, it goes\n"
    doubt += "  # before the outputs in the launcher too.\n"
    entry = f"  - {{name: {name}, shape: [{shape}], dtype: {one.dtype or FILL_IN_MARK}{more}}}\n"
    return entry if one.is_certain else doubt + entry


def _format_tail(entry: str, target: Target) -> str:
    return f"""\
# Write reference.py, then put its function's name here.
reference: {{file: reference.py, function: {FILL_IN_MARK}}}
# Bytes and operations that any right kernel needs, as expressions of the axes; it may be left out.
# cost: {{bytes: "8 * n", flops: "2 * n"}}
entry: {entry}
variants:
  - id: mine
    target: {target}
"""
