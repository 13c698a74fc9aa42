"""Drafts kernel.yaml, reference.py and a launcher; FILL_IN marks values that need a person."""

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
"""Elements per axis of the drafted workloads: a kernel's only axis, each of several, and large."""
_ODD_SIZES = (33, 17, 5, 3, 2)
"""Elements per axis of the drafted check: no multiple of a warp, a tile or a vector."""
_INTEGER_BOUND = 32
"""Exclusive upper bound of drawn integers: below every size, so that subscripts stay in range."""


def choose_function(summary: SourceSummary) -> Function:
    """Return the function to draft for: one with KernelKB's interface, else the first launcher."""
    return next((each for each in summary.functions if each.is_variant), summary.functions[0])


def draft_c_files(
    name: str, summary: SourceSummary, include: str, target: Target
) -> dict[str, str]:
    """Return kernel.yaml, reference.py and a launcher for a C or CUDA file.

    Args:
        name: The kernel's id.
        summary: The file's functions; at least one.
        include: The file's path, relative to the kernel's folder.
        target: Where it runs.
    """
    function = choose_function(summary)
    arrays = [p for p in function.parameters if p.role in ("input", "output")]
    outputs = [p for p in arrays if p.role == "output"]
    inputs = [p for p in arrays if p.role == "input"] + [
        make_start_input(p) for p in outputs if p.is_read
    ]
    sizes = [p.name for p in function.parameters if p.role == "size"]
    fields = assign_field_names([p.name for p in (*inputs, *outputs)] + sizes)
    axes = [fields[size] for size in sizes]
    unknown = f"  - {{name: {FILL_IN_MARK}, shape: [{FILL_IN_MARK}], dtype: {FILL_IN_MARK}}}\n"
    source = "launch.cu" if target == "cuda" else "launch.cpp"
    text = _format_head(name, axes or [FILL_IN_MARK], target, include)
    text += "inputs:\n" + ("".join(_format_input(p, axes, fields) for p in inputs) or unknown)
    text += "outputs:\n" + ("".join(_format_output(p, axes, fields) for p in outputs) or unknown)
    text += _format_tail(function.name if function.is_variant else f"kb_{name}", target)
    text += f"    language: {_select_language(target)}\n    source: {source}\n"
    kernels = ", ".join(f.name for f in summary.functions if f.is_kernel)
    text += f"    kernels: [{kernels}]\n    summary: {_format_summary(function, include)}\n"
    source_lines = draft_include(include, has_main=summary.has_main)
    launcher = (
        source_lines
        if function.is_variant
        else draft_c_launcher(name, function, source_lines, target)
    )
    return {
        "kernel.yaml": text,
        "reference.py": draft_reference(name, (fields[p.name] for p in inputs)),
        source: launcher,
    }


def draft_python_files(name: str, summary: SourceSummary, include: str) -> dict[str, str]:
    """Return kernel.yaml, reference.py and launch.py for a Triton file."""
    function = choose_function(summary)
    fields = assign_field_names(p.name for p in function.parameters)
    text = _format_head(name, [FILL_IN_MARK], "cuda", include)
    text += "inputs:\n"
    for field in fields.values():
        text += f"  - {{name: {field}, shape: [{FILL_IN_MARK}], dtype: {FILL_IN_MARK}}}\n"
    text += f"outputs:\n  - {{name: out, shape: [{FILL_IN_MARK}], dtype: {FILL_IN_MARK}}}\n"
    text += _format_tail(function.name, "cuda")
    text += "    language: triton\n    source: launch.py\n    returns: true\n"
    text += f"    summary: {_format_summary(function, include)}\n"
    return {
        "kernel.yaml": text,
        "reference.py": draft_reference(name, fields.values()),
        "launch.py": draft_python_launcher(name, function, include, summary.side_effect_lines),
    }


def draft_extension_files(
    name: str, summary: SourceSummary, include: str, others: Sequence[str], target: Target
) -> dict[str, str]:
    """Return kernel.yaml, reference.py and sources for a torch extension.

    Args:
        name: The kernel's id.
        summary: The functions that the binding file exports.
        include: That file's path, relative to the kernel's folder.
        others: Paths of the files that define the functions it uses and does not define.
        target: Where it runs.
    """
    function = choose_function(summary)
    names = " or ".join(each.name for each in summary.functions)
    text = _format_head(name, [FILL_IN_MARK], target, include)
    text += (
        f"inputs:\n  - {{name: {FILL_IN_MARK}, shape: [{FILL_IN_MARK}], dtype: {FILL_IN_MARK}}}\n"
    )
    text += f"outputs:\n  - {{name: out, shape: [{FILL_IN_MARK}], dtype: {FILL_IN_MARK}}}\n"
    several = len(summary.functions) > 1
    text += _format_tail(f"{FILL_IN_MARK}  # {names}" if several else function.name, target)
    source = f"launch{PurePosixPath(include).suffix}"
    wrappers = {_name_including_file(PurePosixPath(path)): path for path in others}
    text += f"    language: {_select_language(target)}\n    binding: torch-extension\n"
    text += f"    source: {source}\n"
    if wrappers:
        text += f"    also: [{', '.join(wrappers)}]\n"
    elif summary.missing_functions:
        text += (
            f"    also: [{FILL_IN_MARK}]  # a file in this folder that includes the definition of "
        )
        text += f"{', '.join(summary.missing_functions)}\n"
    title = "a torch extension" if several else f"{function.name} of a torch extension"
    text += f"    returns: true\n    summary: {title}\n"
    return {
        "kernel.yaml": text,
        "reference.py": draft_reference(name, ["x"]),
        source: draft_include(include),
        **{file: draft_include(path) for file, path in wrappers.items()},
    }


def _name_including_file(path: PurePosixPath) -> str:
    """Return the name of the file beside kernel.yaml that includes another source."""
    words = "_".join(path.with_suffix("").parts).replace(".", "")
    return f"{to_snake_case(words)}{path.suffix}"


def _select_language(target: Target) -> str:
    return "cuda" if target == "cuda" else "c++"


def _format_summary(function: Function, include: str) -> str:
    return json.dumps(f"{function.name} of {include.rpartition('/')[2]}")


def _format_head(name: str, axes: Sequence[str], target: Target, include: str) -> str:
    small = ", ".join(f"{a}: {_FLAT_SIZE if len(axes) == 1 else _SMALL_SIZE}" for a in axes)
    large = ", ".join(f"{a}: {_FLAT_SIZE * 4096 if len(axes) == 1 else _LARGE_SIZE}" for a in axes)
    odd = ", ".join(f"{a}: {n}" for a, n in zip(axes, cycle(_ODD_SIZES), strict=False))
    rule = f"Replace every {FILL_IN_MARK}; kb refuses the file until none is left."
    return f"""\
# Drafted by kb init from "{include}". {rule}
# kb show row_softmax prints a complete example.
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


def _format_input(array: Parameter, axes: Sequence[str], fields: Mapping[str, str]) -> str:
    if array.dtype is None or array.dtype.startswith(("float", "bfloat")):
        return _format_array(array, axes, fields, ", fill: normal")
    bound = "2" if array.dtype == "bool" else str(_INTEGER_BOUND)
    if array.is_index and len(axes) != 1:
        bound = FILL_IN_MARK
    return _format_array(array, axes, fields, f", fill: integers, scale: {bound}")


def _format_output(array: Parameter, axes: Sequence[str], fields: Mapping[str, str]) -> str:
    start = f", starts_as: {fields[make_start_input(array).name]}" if array.is_read else ""
    return _format_array(array, axes, fields, start)


def _format_array(
    array: Parameter, axes: Sequence[str], fields: Mapping[str, str], options: str
) -> str:
    shape, name = axes[0] if len(axes) == 1 else FILL_IN_MARK, fields[array.name]
    dtype = array.dtype or FILL_IN_MARK
    entry = f"  - {{name: {name}, shape: [{shape}], dtype: {dtype}{options}}}\n"
    if array.is_certain:
        return entry
    note = (
        f"  # kb init cannot see whether the kernel writes {name}. If it does not, move it to the\n"
    )
    return f"{note}  # inputs, and before the outputs in the launcher.\n{entry}"


def _format_tail(entry: str, target: Target) -> str:
    return f"""\
# Write reference.py, then name its function here.
reference: {{file: reference.py, function: {FILL_IN_MARK}}}
# Bytes and operations that any correct kernel needs, as expressions of the axes. Optional.
# cost: {{bytes: "8 * n", flops: "2 * n"}}
entry: {entry}
variants:
  - id: mine
    target: {target}
"""
